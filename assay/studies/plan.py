"""Stages and cells of a study, in order, and those of them that are still to be run."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from assay import plugins
from assay.errors import BadInput
from assay.host import Host
from assay.records.schema import CELL_PROGRESS, CELL_SECONDS, Record, Status
from assay.studies.cell import Cell, CellCode, code_key, code_of, fingerprint
from assay.studies.earlier import EarlierRecords
from assay.studies.study import Study

T = TypeVar("T")

# Subjects that are not run: a status, and the reason in words.
Obstacles = Mapping[str, tuple[Status, str]]


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """A cell and what identifies the code and settings it would run with."""

    cell: Cell
    fingerprint: str
    missing: Mapping[str, tuple[str, ...]]  # packages that are not installed here, by subject


@dataclass(frozen=True, kw_only=True)
class PlannedStage:
    """A stage of a study with its cells, in order."""

    name: str
    cells: tuple[PlannedCell, ...]
    refusals: Callable[[Cell, Sequence[Record]], Mapping[str, str]] | None
    fails_on: frozenset[Status]
    supplies: bool = False  # later stages make their cells of what this one makes
    streams: bool = False  # its cells may append batches while they run
    reusable_h: float = 0.0  # for how long an earlier run's cells may stand in for its own


def on_device(study: Study, host: Host) -> Study:
    """The study with `device` as the label of one device, `auto` being the best there is."""
    if study.device == "auto":
        return replace(study, device=host.accelerators[0].label if host.accelerators else "cpu")
    return replace(study, device="cpu" if study.device == "cpu" else f"cuda:{study.device_index}")


def make(study: Study, host: Host) -> list[PlannedStage]:
    """The stages of a study in topological order, with fingerprinted cells."""
    return [make_stage(name, study, host) for name in _ordered(study)]


def make_stage(name: str, study: Study, host: Host) -> PlannedStage:
    """One stage of a study, with the cells that it has now."""
    return _stage(name, on_device(study, host), host)


def hosts_of(study: Study, here: Host) -> Collection[str]:
    """Fingerprints of this machine and of those that the study's engine names."""
    engine = plugins.load(plugins.find("engines", study.engine, study.plugin_folders))
    return {here.fingerprint, *(engine.hosts() if hasattr(engine, "hosts") else ())}


def obstacles(
    stage: PlannedStage, planned: PlannedCell, host: Host, earlier: EarlierRecords
) -> Obstacles:
    """Subjects that cannot or must not run now."""
    cell = planned.cell
    blocked: dict[str, tuple[Status, str]] = {}
    if stage.refusals:
        refused = stage.refusals(cell, earlier)
        blocked |= {subject: ("refused", reason) for subject, reason in refused.items()}
    for subject, missing in planned.missing.items():
        hint = plugins.how_to_install(missing)
        blocked[subject] = ("skipped", f"not installed here: {', '.join(missing)} ({hint})")
    if cell.device not in {device.label for device in host.devices}:
        reason = f"there is no device {cell.device} here; `assay doctor` shows those there are"
        blocked |= {subject: ("skipped", reason) for subject in cell.subjects}
    return blocked


@dataclass(frozen=True, kw_only=True)
class ExaminedCell:
    """A planned cell with all records of it, what keeps subjects from running, and why it is due:
    None where it is finished."""

    planned: PlannedCell
    records: Sequence[Record]
    blocked: Obstacles
    why_due: str | None


def states(
    stage: PlannedStage,
    host: Host,
    hosts: Collection[str],
    *,
    before: Sequence[Record],
    earlier: EarlierRecords,
) -> Iterator[ExaminedCell]:
    """The state of each cell of a stage, by all records `before` of the stage and the `earlier`
    ones of the stages before it.

    `hosts` are fingerprints of the machines whose measurements count.
    """
    by_cell: dict[str, list[Record]] = {}
    for record in before:
        by_cell.setdefault(record.cell, []).append(record)
    for planned in stage.cells:
        blocked = obstacles(stage, planned, host, earlier)
        records = by_cell.get(planned.cell.name, [])
        why = _why_due(stage, planned, records, hosts, blocked)
        yield ExaminedCell(planned=planned, records=records, blocked=blocked, why_due=why)


def _why_due(
    stage: PlannedStage,
    planned: PlannedCell,
    of_cell: Sequence[Record],
    hosts: Collection[str],
    blocked: Obstacles,
) -> str | None:
    ends = [record for record in of_cell if record.metric == CELL_SECONDS]
    if not of_cell:
        return "missing"
    last = max(ends, key=lambda record: record.attempt, default=None)
    if last is None or last.attempt < max(record.attempt for record in of_cell):
        same = [record for record in of_cell if record.fingerprint == planned.fingerprint]
        kept = [record.value or 0 for record in same if record.metric == CELL_PROGRESS]
        return f"unfinished, {max(kept):.0f} batches are kept" if kept else "unfinished"
    if last.fingerprint != planned.fingerprint:
        return "changed: its settings, code or packages are not those it was measured with"
    if last.host not in hosts:
        return f"changed: measured on host {last.host}, this is {', '.join(sorted(hosts))}"
    latest = [record for record in of_cell if record.attempt == last.attempt]
    if failed := stage.fails_on & {record.status for record in latest}:
        return ", ".join(sorted(failed))
    kept = {r.subject: (r.status, r.reason) for r in latest if r.status in ("skipped", "refused")}
    kept.pop("", None)  # the cell's own end
    return None if kept == dict(blocked) else "changed: what kept it from running, or what now does"


def _ordered(study: Study) -> list[str]:
    """The study's stages, each after those that its AFTER names and the study has."""
    graph: TopologicalSorter[str] = TopologicalSorter()
    for name in sorted(study.stages):
        after = plugins.find("stages", name, study.plugin_folders).literals["AFTER"]
        graph.add(name, *sorted(set(after) & set(study.stages)))
    try:
        return list(graph.static_order())
    except CycleError as error:
        circle = " after ".join(reversed(error.args[1]))
        raise BadInput(f"the stages cannot be ordered: {circle}; fix AFTER") from error


def _stage(name: str, study: Study, host: Host) -> PlannedStage:
    plugin = plugins.find("stages", name, study.plugin_folders)
    module = plugins.load(plugin)
    proposed = _ask(plugin, "cells", module.cells, study)
    if not all(isinstance(cell, Cell) for cell in proposed):
        raise BadInput(f"{plugin.path}: cells() must return Cell objects")
    cells = [replace(cell, plugin_folders=study.plugin_folders) for cell in proposed]
    refusals = getattr(module, "refusals", None)
    shared: dict[tuple[object, ...], CellCode] = {}
    names = [cell.name for cell in cells]
    if len(set(names)) < len(names):
        raise BadInput(f"stage {name} gives one name to several cells; names must be unique")
    return PlannedStage(
        name=name,
        cells=tuple(_planned(name, cell, host, shared) for cell in cells),
        refusals=partial(_ask, plugin, "refusals", refusals) if refusals else None,
        fails_on=frozenset(plugin.literals["FAILS_ON"]),
        supplies=plugin.literals["SUPPLIES"],
        streams=plugin.literals["STREAMS"],
        reusable_h=plugin.literals["REUSABLE_H"],
    )


def _planned(
    stage: str, cell: Cell, host: Host, shared: dict[tuple[object, ...], CellCode]
) -> PlannedCell:
    """Fingerprint a cell; code that it shares with others of its stage is read once."""
    key = code_key(cell)
    code = shared.get(key) or shared.setdefault(key, code_of(stage, cell))
    mark = fingerprint(stage, cell, host, code)
    return PlannedCell(cell=cell, fingerprint=mark, missing=code.missing)


def _ask(plugin: plugins.Plugin, name: str, function: Callable[..., T], *arguments: object) -> T:
    """Call a function of a stage; a failure is reported as that file's."""
    try:
        return function(*arguments)
    except BadInput:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise BadInput(f"{plugin.path}: {name}() fails: {reason}") from error
