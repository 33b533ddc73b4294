"""Cells that measure implementations on workloads: which there are, how one is run, who is refused.

Nothing is timed that was not shown to be right: `unproven` says who is refused, by the records of
earlier stages.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, product
from pathlib import Path
from typing import Any

from assay import host, plugins
from assay.captures.inputs import PREFIX, captured_specs, store_path
from assay.correctness import isolated_judge, judge
from assay.errors import BadInput
from assay.host import Host
from assay.performance import cell as measuring
from assay.performance.cell import CellRequest
from assay.performance.rounds import RoundSettings
from assay.records.schema import Measurement
from assay.records.verdicts import SUITES, cases_run, is_verdict, is_wrong
from assay.studies.cell import Cell, options_of, settings_of
from assay.studies.earlier import EarlierRecords
from assay.studies.study import Study
from assay.subjects.contract import Subject
from assay.subjects.outcome import Begin
from assay.workloads.spec import MASKS, WorkloadSpec, parse


def workloads(study: Study) -> list[WorkloadSpec]:
    """The workloads that WORKLOADS names, or else every combination of the grid's lists."""
    shapes = [
        (heads, kv_heads, head_dim)
        for heads, kv_heads, own in study.heads
        for head_dim in ((own,) if own else study.head_dims)
    ]
    grid = [
        WorkloadSpec(
            batch=batch,
            heads=heads,
            kv_heads=kv_heads,
            query_length=query_length,
            key_length=key_length,
            head_dim=head_dim,
            dtype=dtype,
            causal=mask == MASKS[0],
            seed=study.seed,
        )
        for dtype, mask, batch, (heads, kv_heads, head_dim), (query_length, key_length) in product(
            study.dtypes, study.masks, study.batches, shapes, study.lengths
        )
    ]
    if not study.workloads:
        return grid
    named = [spec for entry in study.workloads for spec in _named(entry, study, grid[0])]
    if len(set(named)) < len(named):
        raise BadInput(f"WORKLOADS={','.join(study.workloads)} names one workload twice")
    return named


def checked_dtypes(study: Study) -> tuple[str, ...]:
    """The dtypes of WORKLOADS where these are named: a kernel is right in what it is timed in. Of
    captures that the study makes itself none is known when it begins."""
    named = workloads(study) if study.workloads and not _captures(study) else []
    return tuple(dict.fromkeys(spec.dtype for spec in named)) or study.dtypes


def _captures(study: Study) -> bool:
    return bool(study.capture and study.capture_model)


def _named(entry: str, study: Study, defaults: WorkloadSpec) -> list[WorkloadSpec]:
    """The workloads that an entry of WORKLOADS stands for."""
    if not entry.startswith(PREFIX):
        return [parse(entry, defaults=defaults)]
    store = store_path(entry)
    if _captures(study) and store == Path(study.capture_to) and not store.exists():
        return []  # the stage capture makes them, and what follows it is planned anew then
    return captured_specs(entry, seed=study.seed)


CHECK = "accuracy"  # the probe that says whether an implementation is right on a workload
ONE_STEP = {"one_step": True}  # options of a cell that tries a subject out
ISOLATED = {"isolated_judge": True}  # and of one whose process loads no subject
_UNTIMED = RoundSettings(rounds=0, warmup=0)


def cells(study: Study, stage: str) -> list[Cell]:
    """A cell for each workload, with all implementations side by side and a stage's probes."""
    names = _probe_names(study, stage)
    timed = any(literals(study, name)["PAIRED"] for name in names)
    isolated = stage == "check" and study.isolated_judge
    names = tuple(n for n in names if n in isolated_judge.PROBES) if isolated else names
    untimed = ISOLATED if isolated else {}
    of_captured = {name for name in names if literals(study, name)["CAPTURED"]}
    return [
        Cell(
            name=workload.name,
            subjects=study.implementations,
            probes=tuple(n for n in names if workload.captured or n not in of_captured),
            workload=workload,
            device=study.device,
            options=options_of(study.round_settings) if timed else untimed,
            plugin_folders=study.plugin_folders,
        )
        for workload in (workloads(study) if names else ())
    ]


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """Measure the cell's subjects with its probes on its workload; with ONE_STEP, check one forward
    and one backward call of its only subject instead."""
    if cell.options == ONE_STEP:
        yield from run_alone(
            cell, CHECK, lambda call, _: judge.measurements(judge.compare_all(call))
        )
        return
    if cell.options == ISOLATED:
        assert cell.workload
        yield from isolated_judge.run(
            cell.subjects,
            cell.workload,
            probes=cell.probes,
            device=cell.device,
            folders=cell.plugin_folders,
        )
        return
    yield from measuring.run(request(cell), host.inspect(commit=False))


def run_alone(
    cell: Cell, metric: str, measure: Callable[[Subject, Host], Iterable[Measurement]]
) -> Iterator[Begin | Measurement]:
    """Apply `measure` to the cell's one subject on its workload; a failure is under `metric`."""
    yield from measuring.run_alone(request(cell, settings=_UNTIMED), metric, measure)


def request(cell: Cell, settings: RoundSettings | None = None) -> CellRequest:
    """The cell in the words of the performance room."""
    assert cell.probes and cell.workload
    timed = settings_of(cell, RoundSettings) if cell.options and not settings else _UNTIMED
    return CellRequest(
        probes=cell.probes,
        workload=cell.workload,
        subjects=cell.subjects,
        device=cell.device,
        settings=settings or timed,
        kind=cell.kind,
        folders=cell.plugin_folders,
    )


def unproven(cell: Cell, earlier: EarlierRecords) -> dict[str, str]:
    """The subjects of a cell that are not timed, and why."""
    return {
        subject: reason
        for subject in (cell.subjects if cell.probes and cell.kind else ())
        if (reason := _why_unproven(cell, subject, earlier))
    }


def _why_unproven(cell: Cell, subject: str, earlier: EarlierRecords) -> str | None:
    assert cell.workload
    of_suites = chain.from_iterable(earlier.of_stage(stage, subject) for stage in SUITES)
    broken = next(filter(is_wrong, of_suites), None)
    if broken:
        fails = "its" if cases_run(broken) else "it fails"
        return f"not timed: {fails} {broken.metric}: {broken.reason}"
    if CHECK in cell.probes:
        return None  # it is checked in the cell itself, before it is timed
    verdicts = list(filter(is_verdict, earlier.on_workload(cell.workload.name, subject)))
    wrong = next((record for record in verdicts if record.status != "ok"), None)
    if wrong:
        return f"not timed: its check is {wrong.status}: {wrong.reason}"
    if not verdicts:
        return "not timed: no check of it on this workload"
    return None


def _probe_names(study: Study, stage: str) -> tuple[str, ...]:
    """The probes of a stage and, of another stage that the study has not, the check and those that
    they need; of the check's, those that take any workload, and what stages that time need of it.
    """
    names = list(probes_of(study, stage))
    if stage == "check":
        own = [name for name in names if literals(study, name)["EVERY_WORKLOAD"]]
        timed = probes_of(study, "bench") if {"bench", "noise"} & set(study.stages) else ()
        needed = [n for n in _needed(study, timed) if literals(study, n)["STAGE"] == stage]
        return tuple(dict.fromkeys([*own, *needed]))
    elsewhere = set(study.stages) - {stage}
    needed = _needed(study, names)
    first = [need for need in needed if literals(study, need)["STAGE"] not in elsewhere]
    return tuple(dict.fromkeys([*first, *names]))


def _needed(study: Study, probes: Collection[str]) -> list[str]:
    """Probes that must have passed before these: the check, whoever names it, and their NEEDS."""
    needs = [need for name in probes for need in literals(study, name)["NEEDS"]]
    return [CHECK, *needs] if probes else []


def literals(study: Study, probe: str) -> Mapping[str, Any]:
    """The literals of a probe's file."""
    return plugins.find("probes", probe, study.plugin_folders).literals


def probes_of(study: Study, stage: str) -> dict[str, plugins.Plugin]:
    """The study's probes that a stage runs, on the kind of device that it runs on."""
    named = {name: plugins.find("probes", name, study.plugin_folders) for name in study.probes}
    return {
        name: probe
        for name, probe in named.items()
        if probe.literals["STAGE"] == stage
        and not (probe.literals["GPU_ONLY"] and study.device == "cpu")
    }
