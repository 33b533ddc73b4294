"""Progress of a run: the cells at work, how far each is, and when the stage may be done.

All of it is read from the run's folder, so that whoever runs a study and whoever looks at it from
another process see the same.
"""

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from types import MappingProxyType
from typing import TypeVar

import msgspec

from assay.records.schema import CELL_SECONDS, Record
from assay.studies import cell as cells
from assay.studies.attempt import REQUEST_FILE, RESULT_FILE, SCRATCH
from assay.studies.cell import Cell
from assay.studies.signed_lines import unsigned

T = TypeVar("T")
_TAIL_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class CellAtWork:
    """A cell that is running: for how long, at what, and by its batches how much longer."""

    name: str
    elapsed_s: float
    place: str  # in words; empty before it has said anything
    remaining_s: float | None


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Seconds until a stage is done, and what they are estimated from; None where unknown."""

    seconds: float | None
    basis: str


def at_work(stage_folder: Path) -> list[CellAtWork]:
    """The cells of a stage whose processes run, by what these have written until now."""
    running = []
    for scratch in sorted(stage_folder.glob(f"{SCRATCH}*")):
        try:
            started = (scratch / REQUEST_FILE).stat().st_mtime
            cell = cells.decode((scratch / REQUEST_FILE).read_bytes()).cell
            written = _last_bytes(scratch / RESULT_FILE)
        except (FileNotFoundError, msgspec.DecodeError):
            continue  # its request is not written yet, or has gone with its end
        elapsed_s = time.time() - started
        try:
            running.append(_described(cell, elapsed_s, written))
        except (msgspec.DecodeError, KeyError, TypeError):  # a line that is not the worker's
            running.append(_described(cell, elapsed_s, b""))
    return running


def durations(records: Sequence[Record]) -> list[float]:
    """The seconds that each cell of a stage took which ran to its end."""
    return [r.value for r in records if r.metric == CELL_SECONDS and r.value]


def outcomes(records: Sequence[Record]) -> Counter[str]:
    """Number of cells of a stage that ended with each status."""
    return Counter(record.status for record in records if record.metric == CELL_SECONDS)


def estimate(
    done_s: Sequence[float],
    running: Sequence[CellAtWork],
    waiting: int,
    before: Mapping[str, float] = MappingProxyType({}),
) -> Estimate:
    """The time that the cells at work and those after them will take.

    A cell of which nothing else is known takes the mean of those done in this run; where none is,
    what it took `before`, or the mean of these; as many run side by side as do now. One that has
    taken longer already says nothing of its end.
    """
    known_s = done_s or [*before.values()]
    each_s = mean(known_s) if known_s else None
    left: list[float | None] = [each_s] * waiting
    for cell in running:
        cell_s = each_s if done_s else before.get(cell.name, each_s)
        rest_s = None if cell_s is None else max(cell_s - cell.elapsed_s, 0.0)
        rest_s = rest_s or (0.0 if done_s else None)
        left.append(rest_s if cell.remaining_s is None else cell.remaining_s)
    known = [seconds for seconds in left if seconds is not None]
    if not left or len(known) < len(left):
        return Estimate(seconds=None, basis="")
    by_batches = sum(cell.remaining_s is not None for cell in running)
    basis = []
    if len(left) > by_batches:
        plural = "s" if len(done_s) > 1 else ""
        own = f"{len(done_s)} cell{plural} done, {each_s:.1f} s each"
        basis = [own if done_s else "earlier runs on this host"]
    if by_batches:
        basis.append("its batches")
    return Estimate(seconds=sum(known) / max(1, len(running)), basis=" and ".join(basis))


def _last_bytes(file: Path) -> bytes:
    """The end of a file, which holds measurements beside what is looked for; it may be missing."""
    if not file.exists():
        return b""
    with open(file, "rb") as opened:
        opened.seek(max(0, os.fstat(opened.fileno()).st_size - _TAIL_BYTES))
        return opened.read()


class _Turn(msgspec.Struct):
    begin: str
    probe: str
    case: str


class _Written(msgspec.Struct):
    batch: int
    total: int | None


def _last(kind: type[T], written: bytes) -> T | None:
    """The last complete line of a kind; one that anybody else wrote is not shown."""
    for line in reversed(written.split(b"\n")[:-1]):
        with suppress(msgspec.MsgspecError):
            return msgspec.json.decode(unsigned(line), type=kind)
    return None


def _described(cell: Cell, elapsed_s: float, written: bytes) -> CellAtWork:
    begin, batch = _last(_Turn, written), _last(_Written, written)
    made = max(batch.batch - cell.durable_batches, 0) if batch else 0
    remaining_s = None
    if batch and batch.total and made:
        remaining_s = elapsed_s / made * (batch.total - batch.batch)
    words = _turn(cell, begin) if begin else []
    if batch and made:
        of_all = f" of {batch.total}" if batch.total else ""
        words.insert(0, f"batch {batch.batch}{of_all}")
    elif cell.durable_batches:
        words.insert(0, f"after batch {cell.durable_batches}")
    return CellAtWork(
        name=cell.name, elapsed_s=elapsed_s, place=", ".join(words), remaining_s=remaining_s
    )


def _turn(cell: Cell, begin: _Turn) -> list[str]:
    """The subject, probe and case at hand, with their places among those of the cell."""
    words = [_counted(begin.begin, cell.subjects), _counted(begin.probe, cell.probes)]
    return [word for word in (*words, begin.case) if word]


def _counted(name: str, names: Sequence[str]) -> str:
    if name in names and len(names) > 1:
        return f"{name} ({names.index(name) + 1} of {len(names)})"
    return name
