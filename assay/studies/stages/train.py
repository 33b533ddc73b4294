"""Each model of MODELS trained with each seed of TRAIN_SEEDS, on the same data and by one rule."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from assay import host, peaks, plugins
from assay.correctness.models.selection import SelectedModel, select
from assay.errors import BadInput, CannotRunHere
from assay.instruments.telemetry import Telemetry
from assay.records.durable import is_full
from assay.records.schema import MODELS, Measurement
from assay.records.verdicts import WRONG
from assay.studies import ranks
from assay.studies.cell import Batch, Cell, options_of, settings_of
from assay.studies.earlier import EarlierRecords
from assay.studies.stages import models
from assay.studies.study import Study
from assay.subjects.outcome import Begin
from assay.train.eval_choice import all_chosen
from assay.train.optimizer_choice import chosen
from assay.train.processes import NONE, Processes
from assay.train.settings import TrainSettings

if TYPE_CHECKING:
    from assay.train.data import PreparedData
    from assay.train.parallel import OneProcess

AFTER = ("host", "models")
FAILS_ON = ("failed", "oom", "timeout")
REQUIRES = ("torch", "safetensors")
STREAMS = True
USES = ("torch",)
_STAGE, _END = "train", "final_val_loss"


def cells(study: Study) -> list[Cell]:
    """One for each model, optimizer and seed, seed by seed, so that an interrupted study has whole
    pairs."""
    selected = models.selected(study).models
    if own := [model.name for model in selected if model.variant is None]:
        raise BadInput(
            f"{', '.join(own)}: a class of your own cannot be trained here; a part of your own can "
            "(docs/models.md), as GPT2_MLA_TAG"
        )
    _require_place(study)
    for choice in all_chosen(study.train_evals, study.plugin_folders):
        choice.require()
    arms = product(study.train_seeds, selected, study.train_optimizers)
    return [_cell(model, optimizer, seed, study) for seed, model, optimizer in arms]


def _require_place(study: Study) -> None:
    """Refuse a local dataset without its path before anything is run."""
    dataset = plugins.find("datasets", study.train_dataset, study.plugin_folders)
    if not dataset.literals["NEEDS_PLACE"]:
        return
    if not study.train_place:
        raise BadInput(
            f"TRAIN_DATASET={dataset.name} is read from a local path; give it as TRAIN_PLACE "
            "(assay train --place PATH)"
        )
    if not Path(study.train_place).exists():
        raise BadInput(f"TRAIN_PLACE={study.train_place} is not there; give an existing path")


def refusals(cell: Cell, earlier: EarlierRecords) -> dict[str, str]:
    """Models that are not trained: those whose gates failed, or were not asked."""
    (subject,) = cell.subjects
    model = settings_of(cell, TrainSettings).model
    gates = earlier.of_stage(MODELS, model)
    if not gates:
        return {subject: "not trained: its gates were not run; add the stage models"}
    wrong = next((record for record in gates if record.status in WRONG), None)
    if wrong:
        return {subject: f"not trained: it fails the gate {wrong.metric}: {wrong.reason}"}
    return {}


def run(cell: Cell) -> Iterator[Begin | Measurement | Batch]:
    """Yield a batch of measurements at each report, and the end of the run."""
    settings = settings_of(cell, TrainSettings)
    yield Begin(settings.arm)
    try:
        prepared = _prepared(cell, settings)
    except CannotRunHere as error:  # a package or a hub that is not there
        yield _ended(settings, "skipped", str(error))
        return
    except BadInput as error:
        if is_full(error):
            raise
        yield _ended(settings, "failed", str(error))
        return
    try:
        with _folder(cell) as folder:
            in_folder = replace(cell, folder=folder)
            items = _in_ranks(in_folder) if cell.launch else _alone(in_folder, prepared)
            for item in items:
                if isinstance(item, Batch) and not cell.folder:
                    yield from item.measurements
                else:
                    yield item
    except (BadInput, CannotRunHere) as error:
        if is_full(error):
            raise
        yield _ended(settings, "failed", str(error))


def _alone(cell: Cell, prepared: "PreparedData") -> Iterator[Begin | Measurement | Batch]:
    from assay.train.parallel import ONE_PROCESS

    return _trained(cell, prepared, ONE_PROCESS)


def in_rank(cell: Cell, parallel: "OneProcess") -> Iterator[Begin | Measurement | Batch]:
    """Train in one of several processes; all of them must take what this yields."""
    try:
        yield from _trained(cell, _prepared(cell, settings_of(cell, TrainSettings)), parallel)
    except (BadInput, CannotRunHere) as error:
        yield _ended(settings_of(cell, TrainSettings), "failed", str(error))


def _in_ranks(cell: Cell) -> Iterator[Begin | Measurement | Batch]:
    from torch import distributed

    settings = settings_of(cell, TrainSettings)
    if not distributed.is_available():
        raise CannotRunHere(
            "this torch was built without torch.distributed; give TRAIN_PARALLEL=none, or install "
            "a torch that has it"
        )
    try:
        yield from ranks.items(_STAGE, cell, cell.launch["count"])
    except ranks.RankFailed as failure:
        status = "oom" if failure.ending == "oom" else "failed"
        yield _ended(settings, status, f"{failure}; resume goes on from the last saved state")


@contextmanager
def _folder(cell: Cell) -> Iterator[Path]:
    """The folder of the cell's state; one for the moment where nothing is recorded."""
    if cell.folder:
        yield cell.folder
        return
    with TemporaryDirectory() as scratch:
        yield Path(scratch)


def _prepared(cell: Cell, settings: TrainSettings) -> "PreparedData":
    from assay.train import data

    return data.prepare(
        settings.dataset,
        settings.tokenizer,
        place=settings.place,
        vocabulary=settings.vocabulary,
        folder=Path(settings.data_folder),
        folders=cell.plugin_folders,
    )


def _trained(
    cell: Cell, prepared: "PreparedData", parallel: "OneProcess"
) -> Iterator[Begin | Measurement | Batch]:
    from assay.train.run import TrainingRun
    from assay.train.trainer import LossNotFinite, Trainer, prepare_process

    settings, folder = settings_of(cell, TrainSettings), cell.folder
    (model,) = select([settings.model], cell.plugin_folders).models
    assert model.variant and folder
    for warning in settings.warnings() if parallel.rank == 0 else ():
        print(f"{settings.arm}: {warning}", file=sys.stderr)
    prepare_process(settings, cell.device)  # before anything is computed, as a ceiling is
    ceiling = None if cell.device == "cpu" else peaks.matmul_rate(cell.device)
    trainer = Trainer(
        settings, model.variant, dict(model.options), prepared,
        device=cell.device, folder=folder, folders=cell.plugin_folders, parallel=parallel,
    )  # fmt: skip
    telemetry = Telemetry(host.inspect(commit=False), cell.device) if parallel.rank == 0 else None
    ceiling = ceiling and ceiling * parallel.world
    training = TrainingRun(trainer=trainer, telemetry=telemetry, ceiling=ceiling)
    try:
        for update in training.updates():
            yield Begin(settings.arm, case=update.words)
            yield Batch(update.number, update.total, update.measurements)
    except LossNotFinite as error:
        kept = trainer.position.weights_digest and f"the state before it is in {folder}"
        reason = (
            f"{error}; {kept or 'no state was saved before it'}; try a lower TRAIN_LEARNING_RATE"
        )
        yield _ended(settings, "failed", reason)
        return
    yield from training.summary()
    if settings.evals:
        from assay.train.evaluated_models import in_training
        from assay.train.evaluation import evaluated

        place = {"seed": settings.seed, "step": trainer.step}
        model, folders = in_training(trainer), cell.plugin_folders
        if parallel.rank == 0:
            yield from evaluated(model, settings.evals, folders=folders, data=place)


def _cell(model: SelectedModel, optimizer: str, seed: int, study: Study) -> Cell:
    assert model.variant
    settings = settings_for(study, model.name, optimizer, seed)
    choice = chosen(optimizer, study.plugin_folders)
    try:
        choice.pruning(settings.steps, model.options.get("sparsity", 0.0))
    except BadInput as error:
        raise BadInput(f"{model.name} with {optimizer}: {error}") from error
    kinds = {"datasets": settings.dataset, "tokenizers": settings.tokenizer}
    files = [plugins.find(kind, name, study.plugin_folders).path for kind, name in kinds.items()]
    files.append(choice.plugin.path)
    files += [each.plugin.path for each in all_chosen(settings.evals, study.plugin_folders)]
    processes = _processes(study, settings)
    return Cell(
        name=f"{settings.arm}/s{seed}",
        subjects=(settings.arm,),
        device=study.device,
        options=options_of(settings),
        kind="",
        files=(*files, *sorted(part.path for part in model.variant.parts.values())),
        launch={} if processes.kind == NONE else vars(processes),
    )


def _processes(study: Study, settings: TrainSettings) -> Processes:
    """The processes of each run; refused where they do not suit its settings or this machine."""
    processes = Processes(kind=study.train_parallel, count=study.train_processes)
    _, _, index = study.device.partition(":")
    there = len(host.inspect(commit=False).accelerators) if processes.count > 1 and index else 1
    left = max(1, there - int(index or 0))  # a device that is not there is refused elsewhere
    processes.require(settings, device=study.device, accelerators=left)
    return processes


def settings_for(study: Study, model: str, optimizer: str, seed: int) -> TrainSettings:
    """The settings of one arm: the symbols TRAIN_*, by name."""
    own = {"model": model, "optimizer": optimizer, "seed": seed}
    shared = {item.name for item in fields(TrainSettings)} - set(own)
    return TrainSettings(**own, **{name: getattr(study, f"train_{name}") for name in shared})


def _ended(settings: TrainSettings, status: str, reason: str) -> Measurement:
    return Measurement(
        subject=settings.arm, metric=_END, value=None, unit="nats", status=status, reason=reason,
        level="model", data={"seed": settings.seed},
    )  # fmt: skip
