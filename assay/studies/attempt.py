"""One attempt at a cell: its process, and the rest of it after a crash.

All subjects of a cell run in one process. If that process crashes, hangs or runs out of memory,
the subject it was at gets that outcome and each of the others runs alone. A subject that runs out
of memory by itself is tried again alone, because others held some. Where the probes make
cases of their own, the case it was at gets it, and a new process goes on with the others; after a
hang they are left, because each might hang as long.

Where others hold the GPU, an end, a limit to time and an error of the device may be their doing.
Then it is run again, in a new process and after a wait; what repeats beside others is recorded as
not examined, and what repeats on a free device as the subject's own.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from assay.errors import BadInput
from assay.host import own_fingerprint
from assay.instruments import forks, isolation, out_of_memory
from assay.records import verdicts
from assay.records.durable import explained
from assay.records.schema import Measurement, Status
from assay.records.verdicts import HELD, LIMITS, NO_VERDICTS, may_be_others
from assay.studies import crash
from assay.studies.cell import Cell, WorkerRequest, encode, outcome
from assay.studies.job import CellResult, Job
from assay.studies.launching import WORKER, environment_of, imports_of, makes_cases
from assay.studies.signed_lines import new_key
from assay.studies.worker_output import WorkerOutput, last_words, read
from assay.workloads.spec import WorkloadSpec

# Begins the names of folders in which a cell hands over its results. A killed study leaves one
# behind in its stage, for the next start to remove.
SCRATCH = ".cell-"
REQUEST_FILE, RESULT_FILE = "request.json", "result.jsonl"
PATIENCE_S = 120.0  # for others to let go of a GPU
CHECK = "accuracy"  # the probe that says whether an implementation is right on a case


def attempt(job: Job) -> CellResult:
    """Run a job's cell on this machine, in as many processes as that takes."""
    start = time.monotonic()
    measurements = _measurements(job)
    return CellResult(
        job=job,
        measurements=measurements,
        host=own_fingerprint(),
        seconds=time.monotonic() - start,
    )


def _measurements(job: Job) -> list[Measurement]:
    together = _in_process(job, job.cell)
    measurements, waiting = together.measurements, together.rest
    if job.cell.folder is not None:
        return measurements  # what streams is one piece of work: the next attempt continues it
    while waiting:
        after = _in_process(job, waiting[0])
        measurements += [
            msgspec.structs.replace(m, alone=True)
            for m in after.measurements
            if m.metric not in NO_VERDICTS  # the first process has told them
        ]
        waiting = [*after.rest, *waiting[1:]]
    if "find_limits" not in job.cell.options:
        return measurements
    return crash.explained(measurements, lambda spec: _is_right(job, spec))


def _is_right(job: Job, spec: WorkloadSpec) -> bool:
    """Return True where an implementation passes its check on one case, in its own process."""
    options = {**job.cell.options, "find_limits": False, "workloads": [spec.as_dict()]}
    cell = replace(job.cell, probes=(CHECK,), options=options)
    return any(m.metric == CHECK and m.status == "ok" for m in _in_process(job, cell).measurements)


@dataclass(frozen=True, kw_only=True)
class _Attempt:
    measurements: list[Measurement]
    rest: list[Cell]  # one for each subject or probe that has yet to run
    doubt: "_Doubt | None" = None


@dataclass(frozen=True, kw_only=True)
class _Doubt:
    """A cell to run again where others hold its device, and all that holds then of the first."""

    cell: Cell
    kept: list[Measurement]
    rest: Sequence[Cell] = ()
    needs_bytes: int = 0


def _in_process(job: Job, cell: Cell) -> _Attempt:
    """Run a cell, or what is left of it, in a new process; once more what others may have spoilt,
    which is not examined where they are still there and it ends likewise."""
    first = _in_new_process(job, cell)
    doubt = None if cell.folder else first.doubt
    if not doubt or not (others := out_of_memory.others_on(cell.device)):
        return first
    needs = f" for {doubt.needs_bytes / 2**30:.0f} GiB" if doubt.needs_bytes else ""
    what = f"{cell.name}: {', '.join((*doubt.cell.subjects, *doubt.cell.probes))}"
    wait = f"waiting{needs}, {PATIENCE_S:g} s at most, to run again {what}"
    print(f"assay: {others}; {wait}", file=sys.stderr, flush=True)
    out_of_memory.wait_for(cell.device, doubt.needs_bytes, PATIENCE_S)
    second = _in_new_process(job, doubt.cell)
    if second.doubt and (others := out_of_memory.others_on(cell.device)):
        unknown, rest = _unknown(second.doubt.cell, others), second.doubt.rest
        second = _Attempt(measurements=[*second.doubt.kept, *unknown], rest=list(rest))
    stated = {m.metric for m in doubt.kept}.intersection(NO_VERDICTS)
    again = [m for m in second.measurements if m.metric not in stated]
    again = [msgspec.structs.replace(m, alone=True) for m in again]
    return _Attempt(measurements=[*doubt.kept, *again], rest=[*second.rest, *doubt.rest])


def _unknown(cell: Cell, others: str) -> list[Measurement]:
    """Outcomes of subjects of which nothing was learned, by probe where these make their cases."""
    reason = f"not examined: {others}; run it again when they are done"
    held = [
        msgspec.structs.replace(outcome(cell, name, "refused", reason), data=HELD)
        for name in cell.subjects
    ]
    if not makes_cases(cell):
        return held
    return [msgspec.structs.replace(m, metric=name) for m in held for name in cell.probes]


def _in_new_process(job: Job, cell: Cell) -> _Attempt:
    """Run a cell, or what is left of it, in a new process."""
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=job.folder) as scratch:
        request, result = Path(scratch, REQUEST_FILE), Path(scratch, RESULT_FILE)
        with explained(request):
            request.write_bytes(encode(_request(job, cell)))
            key = new_key(Path(scratch))
        out, err = job.folder / "stdout.log", job.folder / "stderr.log"
        for path in (out, err):
            with explained(path), open(path, "a") as file:
                file.write(f"== {cell.name} {' '.join(cell.subjects)}\n")
        before = err.stat().st_size
        limits = isolation.Limits(
            timeout_s=job.limits.timeout_s,
            memory_bytes=job.limits.memory_bytes,
            progress=str(result),
            stall_s=job.limits.case_timeout_s if makes_cases(cell) else None,
        )
        exit = forks.run(  # a new Python where forking is not safe
            f"{WORKER}:in_fork",
            {"request": str(request), "result": str(result)},
            imports=imports_of(job.stage, cell),
            environment=environment_of(cell, capture=job.capture),
            stdout=out,
            stderr=err,
            limits=limits,
        )
        progress = read(result, key)
    if progress.forged:
        return _after_forgery(cell, progress)
    if progress.ended:  # whatever became of the process then: all that it measured is there
        return _after_end(cell, progress)
    if exit.ending == "full":
        where = f"assay study resume {job.run_folder.path}"
        raise BadInput(
            f"{cell.name} could not write, so nothing is recorded of it: {exit.reason}"
            f"{last_words(err, before)}; free some space and go on with: {where}"
        )
    reason = progress.problem or exit.reason
    reason = reason or "the process ended with exit code 0 before the cell was done"
    reason += last_words(err, before)
    status: Status = "failed"
    if exit.ending in ("timeout", "oom") and not progress.problem:
        status = exit.ending  # type: ignore[assignment]
    if makes_cases(cell) and progress.at and progress.at.probe:
        return _after_case(cell, progress, status, reason, stalled=exit.stalled)
    return _after_subject(cell, progress, status, reason)


def _request(job: Job, cell: Cell) -> WorkerRequest:
    if cell.folder is None:
        return WorkerRequest(stage=job.stage, cell=cell)
    return WorkerRequest(
        stage=job.stage,
        cell=cell,
        run_folder=job.run_folder.path.absolute(),
        stamp=job.stamp,
        host=own_fingerprint(),
    )


def _after_end(cell: Cell, progress: WorkerOutput) -> _Attempt:
    """Give those that ran out of memory beside others another turn, alone."""
    crowded = [
        m for m in progress.measurements if m.status == "oom" and not m.alone and cell.workload
    ]
    again: dict[str, tuple[str, ...]] = {}
    for measurement in crowded:
        named = tuple(name for name in cell.probes if name in measurement.metric.split("+"))
        again[measurement.subject] = (*again.get(measurement.subject, ()), *named)
    return _Attempt(
        measurements=[m for m in progress.measurements if m not in crowded],
        rest=[replace(cell, subjects=(s,), probes=probes) for s, probes in again.items()],
        doubt=_doubt_of(cell, progress.measurements),
    )


def _doubt_of(cell: Cell, measurements: Sequence[Measurement]) -> _Doubt | None:
    """Subjects with errors of a device; of one that makes cases, the probes."""
    marked = [m for m in measurements if may_be_others(m)]
    subjects, names = {m.subject for m in marked}, {m.metric for m in marked}
    again = replace(cell, subjects=tuple(s for s in cell.subjects if s in subjects))
    kept = [m for m in measurements if m.subject not in subjects]
    if makes_cases(cell):
        probes = tuple(name for name in cell.probes if name in names)
        again = replace(again, probes=probes or cell.probes)  # where it could not be loaded: all
        kept = [m for m in measurements if m not in marked]
    needs_bytes = max(((m.data or {}).get("needs_bytes", 0) for m in marked), default=0)
    return _Doubt(cell=again, kept=kept, needs_bytes=needs_bytes) if marked else None


def _after_forgery(cell: Cell, progress: WorkerOutput) -> _Attempt:
    """Blame the subject whose turn it was; the others run without it."""
    reason = str(progress.problem)
    if makes_cases(cell) and progress.at:
        blamed = outcome(cell, progress.at.subject, "failed", reason)
        return _Attempt(
            measurements=[
                msgspec.structs.replace(blamed, metric=name, cause="it forges results")
                for name in cell.probes
            ],
            rest=[],
        )
    return _after_subject(cell, progress, "failed", reason)


def _after_case(
    cell: Cell, progress: WorkerOutput, status: Status, reason: str, *, stalled: bool
) -> _Attempt:
    """Blame the probe and the case it was at; go on with the probes that had no turn, and in the
    suite with the other cases of this one."""
    at = progress.at
    assert at
    reported = {measurement.metric for measurement in progress.measurements} | {at.probe}
    waiting = tuple(name for name in cell.probes if name not in reported)
    ends, cause = "ends its process", crash.ENDS
    if status == "timeout":
        ends, cause = ("hangs", "it hangs") if stalled else ("takes all the time", None)
        # It went on: nothing is known but that this case did not come to its end.
        reason = reason if stalled else f"{verdicts.incomplete(0, 1)}; {reason}"
    blamed = msgspec.structs.replace(
        outcome(cell, at.subject, status, crash.at_case(at.case, reason) if at.case else reason),
        metric=at.probe,
        cause=cause,
    )
    again = replace(cell, probes=tuple(n for n in cell.probes if n in (at.probe, *waiting)))
    doubt = _Doubt(cell=again, kept=progress.measurements) if status != "oom" else None
    if "ended" in cell.options and at.case and at.probe != LIMITS and status == "failed":
        case = {"probe": at.probe, "case": at.case, "reason": blamed.reason, "cause": crash.ENDS}
        options = {**cell.options, "ended": [*cell.options["ended"], case]}
        rest = replace(cell, probes=(at.probe, *waiting), options=options)
        return _Attempt(measurements=progress.measurements, rest=[rest], doubt=doubt)
    measurements = [*progress.measurements, blamed]
    # Where it ends its process outside of its limits, they are not looked for again.
    options = {**cell.options, **({"find_limits": False} if at.probe == LIMITS else {})}
    rest = replace(cell, probes=waiting, options=options)
    if status == "timeout" or rest == cell:  # which would end in the same way for ever
        text = f"not run: it {ends} in {at.probe}; fix that first"
        skipped = outcome(cell, at.subject, "skipped", text)
        measurements += [msgspec.structs.replace(skipped, metric=name) for name in waiting]
        return _Attempt(measurements=measurements, rest=[], doubt=doubt)
    return _Attempt(measurements=measurements, rest=[rest] if waiting else [], doubt=doubt)


def _after_subject(cell: Cell, progress: WorkerOutput, status: Status, reason: str) -> _Attempt:
    """Blame the subject the process was at, or, before the first of several, the whole cell."""
    at = (
        progress.at.subject
        if progress.at
        else (cell.subjects[0] if len(cell.subjects) == 1 else "")
    )
    is_stranger = bool(at and cell.subjects) and at not in cell.subjects
    if is_stranger:  # whom the others alone would come to again
        reason = f"{reason}; it was at {at!r}, which is no subject of this cell"
    blamed = outcome(cell, at, status, reason)
    # An outcome of its own ends a subject; anything less may be half of its measurements.
    ended = {m.subject for m in progress.measurements if m.status != "ok" and m.subject != at}
    kept = [measurement for measurement in progress.measurements if measurement.subject in ended]
    waiting = [name for name in cell.subjects if name not in ended and name != at]
    rest = [replace(cell, subjects=(name,)) for name in waiting if at and not is_stranger]
    is_alone = at and not is_stranger and status != "oom"
    again = _Doubt(cell=replace(cell, subjects=(at,)), kept=kept, rest=rest) if is_alone else None
    return _Attempt(measurements=[*kept, blamed], rest=rest, doubt=again)
