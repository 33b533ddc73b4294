"""Execution of a run: stages in order, each cell attempted, recorded and, once done, left alone.

A cell is finished when the record that ends it is in the log. So whatever moment a run is stopped
at, resuming it does the cells that have no such record, and no other.
"""

import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from assay import plugins
from assay.devices import memory_bytes
from assay.errors import BAD_INPUT, CANNOT_RUN_HERE, DOES_NOT_HOLD, HOLDS
from assay.host import Host
from assay.records import run as runs
from assay.records.durable import make_folder
from assay.records.explanation import rank
from assay.records.identity import current
from assay.records.log import Log
from assay.records.run import Done, RunFolder
from assay.records.schema import CELL_SECONDS, SEVERITY, Measurement, Record, Stamp, Status
from assay.records.verdicts import (
    is_expected,
    is_unbelievable,
    skipped_cells,
    timed_out,
    was_held,
    without_time,
)
from assay.studies import continuation, plan, reuse
from assay.studies.attempt import SCRATCH
from assay.studies.auditor import Auditor
from assay.studies.cell import Cell, outcome
from assay.studies.continuation import FolderOwner, next_attempt
from assay.studies.earlier import EarlierRecords, StreamedRecords
from assay.studies.job import CellLimits, CellResult, Job
from assay.studies.plan import ExaminedCell, PlannedCell, PlannedStage
from assay.studies.study import Study
from assay.studies.tracking import Tracking
from assay.workloads.workload import identity


class Observer(Protocol):
    """Receives the progress of a run."""

    def stage(self, name: str, due: int, total: int) -> None: ...
    def cell(self, name: str, status: Status, reason: str | None, elapsed_s: float) -> None: ...
    def note(self, text: str) -> None: ...


@dataclass(frozen=True, kw_only=True)
class ActiveRun:
    """A started run: what all its cells share."""

    folder: RunFolder
    run: str
    session: int
    study: Study
    stages: tuple[PlannedStage, ...]
    host: Host
    tracking: Tracking
    reuse: bool = False  # of cells that earlier runs measured, where their stages allow it


def execute(active: ActiveRun, observer: Observer) -> list[Record]:
    """Run the cells that remain; returns its current records. The run must be held."""
    records = EarlierRecords()
    supplied = False
    for planned in active.stages:
        stage = planned
        if supplied:  # what this stage is about may not have been there before
            stage = plan.make_stage(planned.name, active.study, active.host)
        records.extend(_do_stage(stage, active, records, observer))
        supplied = supplied or stage.supplies
    return list(records)


def cell_limits(study: Study) -> CellLimits:
    """Limits that a study sets to each of its cells on this machine."""
    return CellLimits(
        timeout_s=study.cell_timeout_s,
        case_timeout_s=study.case_timeout_s,
        memory_bytes=int(memory_bytes() * study.cell_memory_percent / 100),
    )


def exit_code(records: Sequence[Record], stages: Sequence[PlannedStage]) -> int:
    """Return the exit code that a run's records stand for."""
    fails_on = {stage.name: stage.fails_on for stage in stages}
    if any(record.metric == "load" and record.status == "failed" for record in records):
        return BAD_INPUT
    failed = any(r.status in fails_on[r.stage] or is_unbelievable(r) for r in records)
    if failed or without_time(records):
        return DOES_NOT_HOLD
    lacks = timed_out(records) or any(map(was_held, records))
    lacks = lacks or any(each.is_all for each in skipped_cells(records))
    return CANNOT_RUN_HERE if lacks else HOLDS


def _do_stage(
    stage: PlannedStage, active: ActiveRun, earlier: EarlierRecords, observer: Observer
) -> list[Record]:
    folder = make_folder(active.folder.stage(stage.name))
    for left_behind in folder.glob(f"{SCRATCH}*"):
        shutil.rmtree(left_behind)
    with Log(active.folder.log(stage.name)) as log:
        if log.set_aside_bytes:
            observer.note(
                f"{log.set_aside_bytes} bytes of an unfinished cell set aside: {log.path}.torn"
            )
        before = runs.stage_records(active.folder, stage.name)
        hosts = plan.hosts_of(active.study, active.host)
        states = plan.states(stage, active.host, hosts, before=before, earlier=earlier)
        due = [state for state in states if state.why_due]
        if active.reuse and stage.reusable_h:
            due = [
                state for state in due if not _reused(stage, state, active, hosts, log, observer)
            ]
        observer.stage(stage.name, len(due), len(stage.cells))
        done = runs.read_done(active.folder, stage.name)
        stale = bool(due) or done is None or done.cells != _fingerprints(stage)
        if stale:
            active.folder.done_file(stage.name).unlink(missing_ok=True)
            for name in ("stdout.log", "stderr.log"):
                (folder / name).touch()
            for batch in _attempts(stage, due, active, earlier, log):
                log.append(batch)
                end = batch[-1]
                observer.cell(end.cell, end.status, end.reason, end.value or 0.0)
    names = {planned.cell.name for planned in stage.cells}
    everything = current(runs.stage_records(active.folder, stage.name))
    records = [record for record in everything if record.cell in names]
    if stale:
        runs.write_done(active.folder, stage.name, _done(stage, records, active))
    return records


def _reused(
    stage: PlannedStage,
    state: ExaminedCell,
    active: ActiveRun,
    hosts: Collection[str],
    log: Log,
    observer: Observer,
) -> bool:
    """Take a cell over from an earlier run, where there is one that may stand in for it."""
    if state.records or state.blocked:
        return False
    earlier = reuse.measured_before(stage, state.planned, active.folder, hosts)
    if not earlier:
        return False
    records = reuse.taken_over(earlier, _stamp(stage, state.planned, active, attempt=1))
    log.append(records)
    observer.note(f"  reused   {state.planned.cell.name}: {reuse.remark_on(records)}")
    return True


def _attempts(
    stage: PlannedStage,
    due: Sequence[ExaminedCell],
    active: ActiveRun,
    earlier: Sequence[Record],
    log: Log,
) -> Iterator[list[Record]]:
    """The records that end each due cell, one batch per cell."""
    waiting = {state.planned.cell.name: state for state in due}
    engine = plugins.load(plugins.find("engines", active.study.engine, active.study.plugin_folders))
    auditor, streamed = Auditor(engine, earlier), StreamedRecords(log.path)
    for result in map(auditor.believed, engine.run(_jobs(stage, due, active, log))):
        state = waiting.pop(result.job.cell.name)
        stamp = result.job.stamp
        before = streamed.of(stamp.cell, stamp.attempt) if result.job.cell.folder else []
        yield _records(state, stamp, active, result, before)
    for state in waiting.values():  # nothing in them can run
        stamp = _stamp(stage, state.planned, active, next_attempt(state.records))
        yield _records(state, stamp, active)


def _jobs(
    stage: PlannedStage, due: Sequence[ExaminedCell], active: ActiveRun, log: Log
) -> Iterator[Job]:
    limits = cell_limits(active.study)
    for state in due:
        planned = state.planned
        subjects = tuple(name for name in planned.cell.subjects if name not in state.blocked)
        if planned.cell.subjects and not subjects:
            continue
        cell, attempt = replace(planned.cell, subjects=subjects), next_attempt(state.records)
        if stage.streams:
            cell, attempt = _streaming(stage, planned, cell, active, state.records, log)
        stamp = _stamp(stage, planned, active, attempt)
        yield Job(
            cell=cell,
            run_folder=active.folder,
            stamp=stamp,
            limits=limits,
            capture=active.study.capture,
        )


def _streaming(
    stage: PlannedStage,
    planned: PlannedCell,
    cell: Cell,
    active: ActiveRun,
    before: Sequence[Record],
    log: Log,
) -> tuple[Cell, int]:
    """A cell with its folder and the batches it need not make again, and the attempt's number."""
    folder = active.folder.cell(stage.name, cell.name).absolute()
    owner = FolderOwner(
        cell=cell.name,
        fingerprint=planned.fingerprint,
        host=active.host.fingerprint,
        subjects=cell.subjects,
    )
    beginning = continuation.begin(folder, owner, before, stage.fails_on, session=active.session)
    log.append(beginning.carried)
    return (
        replace(cell, folder=folder, durable_batches=beginning.durable_batches),
        beginning.attempt,
    )


def _stamp(stage: PlannedStage, planned: PlannedCell, active: ActiveRun, attempt: int) -> Stamp:
    return Stamp(
        run=active.run,
        session=active.session,
        stage=stage.name,
        cell=planned.cell.name,
        fingerprint=planned.fingerprint,
        attempt=attempt,
    )


def _records(
    state: ExaminedCell,
    stamp: Stamp,
    active: ActiveRun,
    result: CellResult | None = None,
    streamed: Sequence[Record] = (),
) -> list[Record]:
    """A cell's last batch: why subjects did not run, what an engine handed back of the others, and
    last the record that ends it, which `streamed`, the batches before, have a say in."""
    cell = state.planned.cell
    kept = [outcome(cell, name, *why) for name, why in state.blocked.items()]
    measurements = [*kept, *(result.measurements if result else ())]
    status, reason = _ending(stamp.stage, [*streamed, *measurements])
    end = Measurement(
        metric=CELL_SECONDS,
        value=result.seconds if result else 0.0,
        unit="s",
        status=status,
        reason=reason,
        workload=identity(cell.workload) if cell.workload else None,
    )
    host = result.host if result else active.host.fingerprint
    return runs.stamped((*measurements, end), stamp, host=host)


def _ending(stage: str, measurements: Sequence[Measurement]) -> tuple[Status, str | None]:
    """Return the status of the worst measurement, and its reason."""
    if not measurements:
        return "failed", "the cell ended without a measurement"
    unexpected = [m for m in measurements if not is_expected(stage, m.status)]
    if not unexpected:
        return "ok", None
    worst = min(unexpected, key=lambda m: (SEVERITY.index(m.status), rank(m)))
    return worst.status, f"{worst.subject}: {worst.reason}" if worst.subject else worst.reason


def _fingerprints(stage: PlannedStage) -> dict[str, str]:
    return {planned.cell.name: planned.fingerprint for planned in stage.cells}


def _done(stage: PlannedStage, records: Sequence[Record], active: ActiveRun) -> Done:
    ends = {record.cell: record for record in records if record.metric == CELL_SECONDS}
    counts = Counter(record.status for record in ends.values())
    failed = [name for name, record in ends.items() if record.status in stage.fails_on]
    skipped = next(iter(skipped_cells(records)), None)
    status, reason = "skipped" if skipped and skipped.is_all else "ok", skipped and str(skipped)
    if failed:
        status = "failed"
        reason = f"{len(failed)} of {len(ends)} cells failed, the first is {failed[0]}"
    return Done(
        status=status,
        reason=reason,
        cells=_fingerprints(stage),
        counts=dict(counts),
        session=active.session,
        time=runs.now(),
    )
