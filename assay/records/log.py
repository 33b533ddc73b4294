"""The append-only JSONL log that all reports are made from.

Records are appended in batches. A batch is one write and one fsync under a lock, and its last
record says how many records it has, so a batch is wholly in the log or not at all: after a kill,
what follows the last complete batch is set aside in `<name>.torn` before anything is appended.
Two processes may append to one log; a full disk leaves it as it was.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from assay.errors import BadInput
from assay.records.durable import explained, sync_folder, write_all
from assay.records.schema import SCHEMA, Record

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
# Quotes inside a JSON string are escaped, so these bytes only ever stand for the key.
_CLOSING_KEY = b'"closes":'
_BLOCK_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class LogContent:
    """The complete batches of a log, and the number of bytes after them, which belong to none."""

    records: list[Record]
    torn_bytes: int


class Log:
    """A log opened for appending."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.set_aside_bytes = 0
        self._sequence = 0
        self._session = 0
        self._settled_bytes = -1
        with explained(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            sync_folder(path.parent)
        with self._locked():
            self._settle()

    def append(self, records: Sequence[Record], *, guard: Callable[[], None] | None = None) -> None:
        """Write `records` as one batch and return when it is durable.

        `guard` is called when no other process can append any more, and may raise.
        """
        if not records:
            return
        with self._locked():
            if guard:
                guard()
            self._settle()
            if records[0].session < self._session:
                raise ValueError(
                    f"{self.path}: a record of session {records[0].session} after those of "
                    f"session {self._session}; sessions only go up"
                )
            content = self._numbered_lines(records)
            start = self._settled_bytes
            with explained(self.path):
                try:
                    write_all(self._descriptor, [memoryview(content)])
                    os.fsync(self._descriptor)
                except OSError:
                    os.ftruncate(self._descriptor, start)
                    raise
            self._settled_bytes = start + len(content)
            self._sequence += len(records)
            self._session = records[-1].session

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _numbered_lines(self, records: Sequence[Record]) -> bytes:
        """The batch with its positions, in copies: replacing fields would check records again."""
        assign = msgspec.structs.force_setattr
        numbered = [record.__copy__() for record in records]
        for position, record in enumerate(numbered, start=self._sequence + 1):
            assign(record, "sequence", position)
        assign(numbered[-1], "closes", len(numbered))
        return _encoder.encode_lines(numbered)

    def _settle(self) -> None:
        """Learn where the log ends; set aside what a killed writer left behind."""
        size = os.fstat(self._descriptor).st_size
        if size == self._settled_bytes:
            return
        end, last = _last_closing_line(self._descriptor, size)
        if end < size:
            self._set_aside(end, size)
        record = _decode(last, self.path) if last else None
        self._sequence, self._session = (record.sequence, record.session) if record else (0, 0)
        self._settled_bytes = end

    def _set_aside(self, start: int, end: int) -> None:
        torn = self.path.with_name(self.path.name + ".torn")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        with explained(torn), open(os.open(torn, flags, 0o644), "ab") as file:
            file.write(os.pread(self._descriptor, end - start, start) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.ftruncate(self._descriptor, start)
        os.fsync(self._descriptor)
        self.set_aside_bytes += end - start


def read(path: Path) -> LogContent:
    """All complete batches of the log at `path`, which is left as it is."""
    content, torn_bytes = complete_content(path)
    return LogContent(records=records_in(content, path), torn_bytes=torn_bytes)


def records_in(content: bytes, path: Path, *, first_line: int = 1) -> list[Record]:
    """The records of complete batches that were read from `path`; BadInput for anything else."""
    records: list[Record] = []
    batch_start = 0
    for number, line in enumerate(content.splitlines(), start=first_line):
        records.append(_decode(line, path, number))
        if records[-1].closes:
            _check_batch(len(records) - batch_start, records[-1].closes, path, number)
            batch_start = len(records)
    return records


def complete_content(path: Path, *, start: int = 0) -> tuple[bytes, int]:
    """The bytes of all complete batches from `start` on, and the number of bytes that follow them.

    `start` is 0 or the end of a batch. The end is found first: those bytes stay as they are while
    another process appends.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < start:
                raise BadInput(
                    f"{path} has {size:,} bytes, and had {start:,}: it was changed from outside; "
                    "restore it, or look at it again from its beginning"
                )
            length, _ = _last_closing_line(file.fileno(), size - start, start)
            file.seek(start)
            return file.read(length), size - start - length
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error


def complete_bytes(path: Path) -> int:
    """Number of bytes of the log that belong to complete batches."""
    with open(path, "rb") as file:
        return _last_closing_line(file.fileno(), os.fstat(file.fileno()).st_size)[0]


def last_record(path: Path) -> Record | None:
    """The record that closes the last complete batch; None where there is none."""
    with open(path, "rb") as file:
        _, line = _last_closing_line(file.fileno(), os.fstat(file.fileno()).st_size)
    return _decode(line, path) if line else None


def _last_closing_line(descriptor: int, size: int, skipped: int = 0) -> tuple[int, bytes]:
    """The offset after the last line that closes a batch, and that line; (0, b"") without one.

    Of a file whose first `skipped` bytes are as if they were not there.
    """
    tail, start = b"", size
    while True:
        newline = tail.rfind(b"\n")
        while newline >= 0:
            previous = tail.rfind(b"\n", 0, newline)
            line = tail[previous + 1 : newline]
            if (previous >= 0 or start == 0) and _CLOSING_KEY in line:
                return start + newline + 1, line
            newline = previous
        if start == 0:
            return 0, b""
        step = min(max(_BLOCK_BYTES, len(tail)), start)
        start -= step
        tail = os.pread(descriptor, step, skipped + start) + tail


def _decode(line: bytes, path: Path, number: int | None = None) -> Record:
    where = f"{path}:{number}" if number else f"{path}, last record"
    try:
        record = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(
            f"{where}: not a record ({error}). The log was changed from outside: restore it, or "
            "move this run's folder away and run the study again"
        ) from error
    if record.schema != SCHEMA:
        raise BadInput(f"{where}: schema {record.schema}, this assay reads {SCHEMA}")
    return record


def _check_batch(size: int, promised: int, path: Path, number: int) -> None:
    if size != promised:
        raise BadInput(
            f"{path}:{number}: this line closes a batch of {promised} records, {size} are here. "
            "Lines were lost or added from outside: restore the log, or run the study again"
        )
