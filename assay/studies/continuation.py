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
    """What a cell's folder was begun with, in a file beside it: anything else must not go on."""

    cell: str
    fingerprint: str
    host: str
    subjects: tuple[str, ...]


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
        owner_file, content = folder.with_suffix(".json"), msgspec.json.encode(owner)
        same = owner_file.is_file() and owner_file.read_bytes() == content and folder.is_dir()
        last = _last_that_ran(records)
        if same and _may_continue(last, owner, fails_on):
            return _continued(records, last, session)
        if folder.is_dir():
            shutil.rmtree(folder)
        make_folder(folder)
        write_atomically(owner_file, content)
        return Beginning(attempt=next_attempt(records))


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


def _may_continue(last: Sequence[Record], owner: FolderOwner, fails_on: frozenset[Status]) -> bool:
    """False where the last attempt was of something else, ended well, or failed in a batch, which
    would only be copied."""
    return not any(
        record.fingerprint != owner.fingerprint
        or (record.metric == CELL_SECONDS and record.status == "ok")
        for record in last
    ) and not any(record.status in fails_on for record in streamed(last))


def _continued(records: Sequence[Record], last: Sequence[Record], session: int) -> Beginning:
    kept = streamed(last)
    durable = int(kept[-1].value or 0) if kept else 0
    attempt = next_attempt(records)
    if last and last[-1].attempt == attempt - 1 and last[-1].metric != CELL_SECONDS:
        return Beginning(attempt=attempt - 1, durable_batches=durable)
    new = {"attempt": attempt, "session": session, "sequence": 0, "closes": 0}
    carried = tuple(msgspec.structs.replace(record, **new) for record in kept)
    return Beginning(attempt=attempt, durable_batches=durable, carried=carried)
