"""Evals without training: each model of EVAL_MODELS scored on the entries of TRAIN_EVALS."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from assay.errors import BadInput, CannotRunHere
from assay.models.pretrained.huggingface import require_weights
from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.studies.study import Study
from assay.subjects.outcome import Begin
from assay.train.eval_choice import all_chosen

AFTER = ("host", "train")
REQUIRES = ("torch", "safetensors")
USES = ("torch",)
LAST = "last.json"  # of a saved state, train/saved_state.py
_OPENED = "eval"  # the metric of a model that could not be opened


def cells(study: Study) -> list[Cell]:
    """One for each model, with all evals; data that cannot be scored is refused here."""
    wanted = (
        ("EVAL_MODELS", study.eval_models, "name a model"),
        ("TRAIN_EVALS", study.train_evals, "name evals with --eval; `assay list evals` has them"),
    )
    for symbol, given, advice in wanted:
        if not given:
            raise BadInput(f"{symbol} is empty, so the stage evals has nothing to score; {advice}")
    for model in study.eval_models:
        _require_model(model)
    choices = all_chosen(study.train_evals, study.plugin_folders)
    for choice in choices:
        choice.require()
    files = {choice.file: _digest(choice.file) for choice in choices if choice.file}
    return [
        Cell(
            name=model,
            subjects=(model,),
            device=study.device,
            kind="",
            files=tuple(choice.plugin.path for choice in choices),
            options={
                "evals": study.train_evals,
                "dtype": study.eval_dtype,
                "data_folder": study.train_data_folder,
                "files": files,
            },
        )
        for model in study.eval_models
    ]


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """Yield the scores of a model; one that cannot be opened is a record with the reason."""
    from assay.train.evaluated_models import opened
    from assay.train.evaluation import evaluated

    yield Begin(cell.name)
    options, folders = cell.options, cell.plugin_folders
    place = Path(options["data_folder"])
    try:
        model = opened(
            cell.name, dtype=options["dtype"], device=cell.device, data_folder=place,
            folders=folders,
        )  # fmt: skip
    except (BadInput, CannotRunHere) as error:
        yield Measurement(
            subject=cell.name, metric=_OPENED, value=None, unit="", level="model",
            status="failed" if isinstance(error, BadInput) else "skipped", reason=str(error),
        )  # fmt: skip
        return
    yield from evaluated(model, options["evals"], folders=folders)


def _require_model(name: str) -> None:
    """Refuse a path that holds no model before anything is run."""
    if name.endswith(".safetensors"):
        raise BadInput(
            f"{name} is a file of weights, which has no tokenizer; give the folder of the saved "
            f"state that it lies in, with its {LAST}"
        )
    if not (Path(name) / LAST).is_file():
        require_weights(name)


def _digest(file: str) -> str:
    """Of the data, so that a cell is measured again where it changed."""
    return sha256(Path(file).read_bytes()).hexdigest()
