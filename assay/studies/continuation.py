"""Beginnings of attempts at a cell that streams: from where the one before got to, or afresh.

An attempt that was killed with its study goes on under its own number. After one that failed, the
next has the records of its batches copied under the new number, in one batch, so that the highest
attempt of a cell holds all that counts. Anything else begins with an emptied folder.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from assay.records.durable import make_folder, write_atomically
from assay.records.schema import CELL_METRICS, CELL_PROGRESS, CELL_SECONDS, Record, Status
from assay.studies import stream


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """An attempt about to begin: its number, and the batches that it need not make again."""

    attempt: int
    durable_batches: int = 0
    carried: tuple[Record, ...] = ()  # of the attempt before, to be appended under this number


@dataclass(frozen=True, kw_only=True)
class FolderOwner:
    """Identity of a cell's state: that of another, left in its folder, is of no use."""

    cell: str
    fingerprint: str
    host: str
    subjects: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Deed:
    """A file beside the folder: whose it is, and with which attempt it began, empty."""

    owner: FolderOwner
    attempt: int


def next_attempt(records: Sequence[Record]) -> int:
    """The number of the attempt after those of `records`."""
    return max((record.attempt for record in records), default=0) + 1


def begin(
    folder: Path,
    owner: FolderOwner,
    records: Sequence[Record],
    fails_on: frozenset[Status],
    *,
    session: int,
) -> Beginning:
    """Make the cell's folder ready for the attempt after `records`, all that the log has of it."""
    make_folder(folder.parent)
    with stream.alone_in(folder):
        deed = _read_deed(folder)
        if deed and deed.owner == owner:
            last = [r for r in _last_that_ran(records) if r.attempt >= deed.attempt]
            if _may_continue(last, fails_on):
                return _continued(records, last, session)
        attempt = next_attempt(records)
        _empty(folder, _Deed(owner=owner, attempt=attempt))
        return Beginning(attempt=attempt)


def _empty(folder: Path, deed: _Deed) -> None:
    """Begin the folder anew; without its deed first, for half of what was in it is nobody's."""
    file = folder.with_suffix(".json")
    file.unlink(missing_ok=True)
    if folder.is_symlink():  # from elsewhere: what it points to is not the cell's
        folder.unlink()
    elif folder.is_dir():
        shutil.rmtree(folder)
    make_folder(folder)
    write_atomically(file, msgspec.json.encode(deed))


def _read_deed(folder: Path) -> _Deed | None:
    """None where there is none that can be read, or no folder of the run's own."""
    if folder.is_symlink() or not folder.is_dir():
        return None
    try:
        return msgspec.json.decode(folder.with_suffix(".json").read_bytes(), type=_Deed)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def streamed(records: Sequence[Record]) -> list[Record]:
    """Those of an attempt's records that are in its batches, not in the one that ends it."""
    count = max((i for i, r in enumerate(records, 1) if r.metric == CELL_PROGRESS), default=0)
    return list(records[:count])


def _last_that_ran(records: Sequence[Record]) -> list[Record]:
    """The records of the last attempt of which something ran; empty where there is none."""
    ran = [
        record.attempt
        for record in records
        if record.metric == CELL_PROGRESS
        or (record.metric not in CELL_METRICS and record.status not in ("skipped", "refused"))
    ]
    return [record for record in records if ran and record.attempt == max(ran)]


def _may_continue(last: Sequence[Record], fails_on: frozenset[Status]) -> bool:
    """False where the last attempt ended well, or failed in a batch, which would only be copied."""
    ended_well = any(r.metric == CELL_SECONDS and r.status == "ok" for r in last)
    return not ended_well and not any(record.status in fails_on for record in streamed(last))


def _continued(records: Sequence[Record], last: Sequence[Record], session: int) -> Beginning:
    kept = streamed(last)
    durable = int(kept[-1].value or 0) if kept else 0
    attempt = next_attempt(records)
    if last and last[-1].attempt == attempt - 1 and last[-1].metric != CELL_SECONDS:
        return Beginning(attempt=attempt - 1, durable_batches=durable)
    new = {"attempt": attempt, "session": session, "sequence": 0, "closes": 0}
    carried = tuple(msgspec.structs.replace(record, **new) for record in kept)
    return Beginning(attempt=attempt, durable_batches=durable, carried=carried)
