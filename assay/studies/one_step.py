"""One real step of everything a study would run, before hours are spent on it.

Every implementation, layer and model goes once through its check, forward and backward, on the
smallest of the study's workloads, in processes like those of the study. Nothing is timed, and no
record is written; what fails leaves its stack in the log.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay import plugins
from assay.correctness.decode.cases import DecodeCases
from assay.host import Host
from assay.models import layer
from assay.records.run import RunFolder
from assay.records.schema import SEVERITY, Measurement, Stamp, Status
from assay.records.verdicts import WRONG
from assay.studies import plan, workload_cells
from assay.studies.cell import Cell, code_of, outcome
from assay.studies.earlier import EarlierRecords
from assay.studies.execute import cell_limits
from assay.studies.job import Job
from assay.studies.plan import Obstacles, PlannedCell, PlannedStage
from assay.studies.stages import capture, decode, models, train
from assay.studies.study import Study
from assay.subjects.decode import names
from assay.train import entries
from assay.workloads.spec import WorkloadSpec

LOG = "stderr.log"  # of the folder that a step is run in
# Stages without implementations of sequences.
_OF_OTHERS = ("host", "capture", "layers", "models", "decode", "decode_suite", "train", "evals")
_STEP = ("step",)  # the gate that trains a model
_TOKENS = 8  # of a capture


@dataclass(frozen=True, kw_only=True)
class StepCells:
    """Cells of a stage, one for each kind of workload: the first is run that suits its subject.
    `settings` has, for each subject, the symbols that choose this step alone."""

    stage: str
    cells: tuple[Cell, ...]
    settings: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """Outcome of a step of one subject, and the symbols that choose it alone."""

    stage: str
    subject: str
    workload: str
    status: Status
    reason: str
    settings: Mapping[str, str]

    @property
    def is_wrong(self) -> bool:
        return self.status in WRONG


def run(study: Study, host: Host, folder: Path) -> Iterator[StepResult]:
    """Take every subject of a study through one step; `folder` is for logs and scratch files."""
    plan.make(study, host)  # refuses what could not be planned
    engine = plugins.load(plugins.find("engines", study.engine, study.plugin_folders))
    limits = cell_limits(study)
    for step in steps(plan.on_device(study, host), folder):
        stage = PlannedStage(name=step.stage, cells=(), refusals=None, fails_on=frozenset())
        results: list[StepResult] = []
        for cell in step.cells:
            missing = code_of(step.stage, cell).missing
            planned = PlannedCell(cell=cell, fingerprint="", missing=missing)
            blocked = plan.obstacles(stage, planned, host, EarlierRecords())
            free = tuple(name for name in cell.subjects if name not in blocked)
            job = Job(
                cell=replace(cell, subjects=free),
                run_folder=RunFolder(path=folder),
                stamp=_stamp(step, cell),
                limits=limits,
                logs=folder,
                capture=study.capture,
            )
            done = engine.run([job] if free else [])
            measured = [m for result in done for m in result.measurements]
            results = _results(step, cell, measured, blocked)
            if any(result.status != "unsupported" for result in results):
                break
        yield from results


def _stamp(step: StepCells, cell: Cell) -> Stamp:
    """Of records that nobody writes."""
    return Stamp(run="", session=1, stage=step.stage, cell=cell.name, fingerprint="", attempt=1)


def steps(study: Study, scratch: Path) -> list[StepCells]:
    """The steps of a study whose device is a label."""
    chosen = [
        *(_capture(study, scratch) if "capture" in study.stages else ()),
        *(_implementations(study) if set(study.stages) - set(_OF_OTHERS) else ()),
        *(_layers(study) if "layers" in study.stages else ()),
        *(_decoders(study) if {"decode", "decode_suite"} & set(study.stages) else ()),
        *(_models(study) if "models" in study.stages else ()),
        *(_train(study) if "train" in study.stages else ()),
    ]
    return [
        replace(
            step, cells=tuple(replace(c, plugin_folders=study.plugin_folders) for c in step.cells)
        )
        for step in chosen
    ]


def _capture(study: Study, scratch: Path) -> Iterator[StepCells]:
    """A few tokens, into a store that is not the study's."""
    for cell in capture.cells(study):
        shorter = {
            "to": str(scratch / "captures"),
            "tokens": min(study.capture_tokens, _TOKENS),
            "decode": min(study.capture_decode, 1),
        }
        settings = {name: {"STAGES": "capture"} for name in cell.subjects}
        cells = (replace(cell, options=cell.options | shorter),)
        yield StepCells(stage="capture", cells=cells, settings=settings)


def _given_as(kind: str, name: str, study: Study) -> str:
    """The entry of a setting that names a plugin: the path of one that was given by it."""
    path = plugins.find(kind, name, study.plugin_folders).path
    return str(path) if path in study.plugin_folders else name


def _implementations(study: Study) -> Iterator[StepCells]:
    specs = _smallest(workload_cells.workloads(study))
    if not specs:  # the stage capture has yet to make them
        specs = _smallest(workload_cells.workloads(replace(study, workloads=())))
    for name in dict.fromkeys((*study.implementations, *study.search_oom)):
        entry = _given_as("sequence", name, study)
        settings = {"STAGES": "check", "IMPLEMENTATIONS": entry}
        settings |= {"SEARCH_OOM": ""} if study.search_oom else {}
        yield _of_workloads("check", "sequence", name, specs, study, settings)


def _layers(study: Study) -> Iterator[StepCells]:
    folders = study.plugin_folders
    suited = [  # to one of them at least; the others say why not
        spec
        for spec in _smallest(workload_cells.workloads(study))
        if any(layer.suits(name, spec, folders) for name in study.layers)
    ]
    for name in study.layers:
        settings = {"STAGES": "layers", "LAYERS": name}
        yield _of_workloads("layers", layer.KIND, name, suited, study, settings)


def _decoders(study: Study) -> Iterator[StepCells]:
    if "decode" in study.stages:
        specs = _smallest(decode.suited(study))
    else:  # the suite makes its own, of heads and of latents
        cases = DecodeCases(seed=study.seed, quick=True, dtypes=study.dtypes, latent=False)
        specs = [cases.spec(), replace(cases, latent=True).spec()]
    for name in study.decoders:
        settings = {"STAGES": "decode", "DECODERS": names.entry(name, study.plugin_folders)}
        step = _of_workloads("decode", names.KIND, name, specs, study, settings)
        yield replace(step, cells=tuple(decode.with_layouts(cell) for cell in step.cells))


def _models(study: Study) -> Iterator[StepCells]:
    selected = {model.name: model for model in models.selected(study).models}
    # The name of a model has all its options, those of the study too.
    own = {"MODELS_LATENT_WIDTH": "0"} if study.models_latent_width else {}
    own |= {"MODELS_SPLICE_RATIO": ""} if study.models_splice_ratio is not None else {}
    for cell in models.cells(study):
        settings = {}
        for name in cell.subjects:
            file = selected[name].file
            entry = f"{file}:{selected[name].class_name}" if file else name
            settings[name] = {"STAGES": "models", "MODELS": entry} | own
        yield StepCells(stage="models", cells=(replace(cell, probes=_STEP),), settings=settings)


def _train(study: Study) -> Iterator[StepCells]:
    """One step of every arm with its first seed, on the study's own data; that of evals is looked
    at when the cells are made."""
    seed = study.train_seeds[0]
    every = dict.fromkeys(("steps", "report_every", "evaluate_every", "save_every"), 1)
    for cell in train.cells(replace(study, train_seeds=(seed,))):
        (name,) = cell.subjects
        optimizer, plus, options = cell.options["optimizer"].partition(entries.SEPARATOR)
        settings = {
            "STAGES": "models,train",
            "MODELS": cell.options["model"],
            "TRAIN_OPTIMIZERS": _given_as("optimizers", optimizer, study) + plus + options,
            "TRAIN_SEEDS": str(seed),
        }
        cells = (replace(cell, options=cell.options | every | {"windows": 1, "evals": []}),)
        yield StepCells(stage="train", cells=cells, settings={name: settings})


def _of_workloads(
    stage: str,
    kind: str,
    name: str,
    specs: Sequence[WorkloadSpec],
    study: Study,
    settings: Mapping[str, str],
) -> StepCells:
    cells = tuple(
        Cell(
            name=spec.name,
            subjects=(name,),
            probes=(workload_cells.CHECK,),
            workload=spec,
            device=study.device,
            options=workload_cells.ONE_STEP,
            kind=kind,
        )
        for spec in specs
    )
    return StepCells(stage=stage, cells=cells, settings={name: settings})


def _smallest(specs: Sequence[WorkloadSpec]) -> list[WorkloadSpec]:
    """The smallest workload of each kind, the smallest of all first."""
    kinds: dict[object, WorkloadSpec] = {}
    for spec in sorted(specs, key=_size):
        kind = (spec.heads, spec.kv_heads, spec.head_dim, spec.dtype, spec.causal, spec.extras)
        kinds.setdefault(kind, spec)
    return list(kinds.values())


def _size(spec: WorkloadSpec) -> int:
    return spec.batch * spec.heads * spec.query_length * spec.key_length * spec.head_dim


def _results(
    step: StepCells, cell: Cell, measured: Sequence[Measurement], blocked: Obstacles
) -> list[StepResult]:
    """The end of each subject of a cell; what is measured of none counts for all."""
    results = []
    for name in cell.subjects:
        mine = [m for m in measured if m.subject in (name, "")]
        if name in blocked:
            mine = [outcome(cell, name, *blocked[name])]
        worst = min(mine, key=lambda m: SEVERITY.index(m.status))
        results.append(
            StepResult(
                stage=step.stage,
                subject=name,
                workload=cell.workload.name if cell.workload else "",
                status=worst.status,
                reason=(worst.reason or "") if worst.status != "ok" else "",
                settings=step.settings[name],
            )
        )
    return results
