"""One attempt at a cell: its process, and the rest of it after a crash.

All subjects of a cell run in one process. If that process crashes, hangs or runs out of memory,
the subject it was at gets that outcome and each of the others runs alone.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from assay.bench import isolate
from assay.host import CHECKOUT
from assay.records.durable import explained
from assay.records.schema import Measurement, Status
from assay.studies.cell import Cell, encode, outcome

_LAST_WORDS_BYTES = 2000
# Begins the names of folders in which a cell hands over its results. A killed study leaves one
# behind in its stage, for the next start to remove.
SCRATCH = ".cell-"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one cell's process may take."""

    timeout_s: float
    memory_bytes: int


@dataclass(frozen=True, kw_only=True)
class Job:
    """A cell to run, and the folder of its stage for what the process prints."""

    stage: str
    cell: Cell
    folder: Path
    limits: Limits


def attempt(job: Job) -> list[Measurement]:
    """Measurements of every subject of the job's cell, outcomes included."""
    together = _in_process(job, job.cell.subjects)
    found, unfinished = together.measurements, together.unfinished
    while unfinished:
        alone = _in_process(job, unfinished[:1])
        found += [msgspec.structs.replace(m, alone=True) for m in alone.measurements]
        unfinished = unfinished[1:]
    return found


@dataclass(frozen=True, kw_only=True)
class _Attempt:
    measurements: list[Measurement]
    unfinished: tuple[str, ...]  # subjects that never had their turn, or lost it to a crash


@dataclass(frozen=True, kw_only=True)
class _Left:
    """What a process left behind."""

    measurements: list[Measurement]
    at: str  # the subject it was last at; empty before the first
    ended: bool  # whether it came to the end of the cell


def _in_process(job: Job, subjects: Sequence[str]) -> _Attempt:
    """Run some subjects of the cell in a new process."""
    cell = replace(job.cell, subjects=tuple(subjects))
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=job.folder) as scratch:
        request, result = Path(scratch, "request.json"), Path(scratch, "result.jsonl")
        request.write_bytes(encode(job.stage, cell))
        arguments = [str(request), str(result), str(os.getpid())]
        out, err = job.folder / "stdout.log", job.folder / "stderr.log"
        with explained(job.folder), open(out, "ab") as stdout, open(err, "ab") as stderr:
            heading = f"== {cell.name} {' '.join(subjects)}\n".encode()
            for file in (stdout, stderr):
                file.write(heading)
                file.flush()
            before = stderr.tell()
            exit = isolate.run(
                [sys.executable, "-m", "assay.studies.worker", *arguments],
                stdout=stdout,
                stderr=stderr,
                timeout_s=job.limits.timeout_s,
                memory_bytes=job.limits.memory_bytes,
                environment=_environment(),
            )
        left = _read(result)
    if exit.ending == "finished" and left.ended:
        return _Attempt(measurements=left.measurements, unfinished=())
    return _after_crash(cell, exit, left, _last_words(err, before))


def _after_crash(cell: Cell, exit: isolate.Exit, left: _Left, last_words: str) -> _Attempt:
    """Blame the subject the process was at, or, before the first of several, the whole cell."""
    at = left.at or (cell.subjects[0] if len(cell.subjects) == 1 else "")
    status: Status = exit.ending if exit.ending in ("timeout", "oom") else "failed"  # type: ignore[assignment]
    reason = exit.reason or "the process ended with exit code 0 before the cell was done"
    reason = f"{reason}; it last said: {last_words}" if last_words else reason
    blamed = outcome(cell, at, status, reason)
    # An outcome of its own ends a subject; anything less may be half of its measurements.
    ended = {m.subject for m in left.measurements if m.status != "ok" and m.subject != at}
    kept = [measurement for measurement in left.measurements if measurement.subject in ended]
    waiting = tuple(name for name in cell.subjects if name not in ended and name != at)
    return _Attempt(measurements=[*kept, blamed], unfinished=waiting if at else ())


def _read(result: Path) -> _Left:
    """What the worker wrote; a torn last line is left out."""
    measurements, at, ended = [], "", False
    lines = result.read_bytes().split(b"\n")[:-1] if result.is_file() else []
    for line in lines:
        item = msgspec.json.decode(line)
        if "begin" in item:
            at = item["begin"]
        elif "end" in item:
            ended = True
        else:
            measurements.append(msgspec.convert(item, Measurement))
    return _Left(measurements=measurements, at=at, ended=ended)


def _last_words(path: Path, start: int) -> str:
    """The last line that the process wrote to stderr."""
    with open(path, "rb") as file:
        file.seek(max(start, path.stat().st_size - _LAST_WORDS_BYTES))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _environment() -> dict[str, str]:
    """Ours, with this checkout importable, nothing printed held back where a crash would lose it,
    and XLA kept from taking all memory at once."""
    path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")]))
    added = {"PYTHONUNBUFFERED": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return {**os.environ, "PYTHONPATH": path, **added}
