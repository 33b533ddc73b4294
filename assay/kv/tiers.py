"""Tiers: chunks in memory, in files, or with keys in memory and values in a file; bytes counted.

Files are real ones: written whole, made durable with their names, named by numbers. Nothing moves
from one tier to another but by `demote`, or in `put` where the caller chose that for a full memory.
A store is for one process and one thread, and begins with an empty folder.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from pathlib import Path

import torch

from assay.errors import BadInput
from assay.kv import wire
from assay.kv.chunk import Chunk
from assay.kv.header import Corrupt, encoded_bytes
from assay.records.durable import explained, make_folder, write_atomically


class Placement(StrEnum):
    """Where a new chunk goes."""

    MEMORY = "memory"
    FILE = "file"
    SPLIT = "split"  # values and their scales in a file, all else in memory


class WhenFull(StrEnum):
    """Ways with a new chunk whose share of the memory has no room there."""

    REFUSE = "refuse"
    DEMOTE = "demote"  # its share goes to a file, and is counted


@dataclass(frozen=True, kw_only=True)
class TierBytes:
    """Bytes by tier: of streams, and of headers, alignment and checksums around them."""

    memory: int = 0
    memory_headers: int = 0
    file: int = 0
    file_headers: int = 0
    demoted: int = 0  # of all bytes in files, those that were meant for memory

    def __add__(self, other: "TierBytes") -> "TierBytes":
        names = self.__dataclass_fields__
        return TierBytes(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """Tensors of a chunk, and where they came from.

    `cold` is True where the file's first, middle and last page were not in the page cache, False
    where one was, and None with a `reason` where that is unknown. Caches of a disk, or of the host
    of a virtual machine, cannot be seen from here.
    """

    tensors: dict[str, torch.Tensor]
    read: TierBytes
    cold: bool | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Some streams of a chunk, in one tier: as bytes, or as a file."""

    chunk: Chunk
    content: bytearray | None = None
    path: Path | None = None
    demoted: bool = False

    @property
    def counts(self) -> TierBytes:
        size, streams = encoded_bytes(self.chunk), self.chunk.payload_bytes
        if self.path is None:
            return TierBytes(memory=streams, memory_headers=size - streams)
        demoted = size if self.demoted else 0
        return TierBytes(file=streams, file_headers=size - streams, demoted=demoted)


class TieredStore:
    """Chunks by key. `memory_bytes` bounds all that is in memory, headers too; None does not."""

    def __init__(
        self,
        folder: Path | str,
        *,
        placement: str,
        memory_bytes: int | None = None,
        when_full: str = WhenFull.REFUSE,
    ) -> None:
        self._placement = _chosen(placement, Placement, "placement")
        self._when_full = _chosen(when_full, WhenFull, "when_full")
        if memory_bytes is not None and memory_bytes < 0:
            raise BadInput(f"memory_bytes is {memory_bytes}; wanted 0 or more, or None")
        self._memory_bytes = memory_bytes
        self._folder = make_folder(Path(folder))
        if any(self._folder.iterdir()):
            raise BadInput(f"{folder} is not empty; a store begins with a folder of its own")
        self._parts: dict[str, list[_Part]] = {}
        self._numbers = count()

    def put(self, key: str, *, chunk: Chunk, tensors: Mapping[str, torch.Tensor]) -> TierBytes:
        """Keep a chunk, durably where it is in files; return its bytes. It is kept whole or, after
        an error, not at all."""
        if key in self._parts:
            raise BadInput(f"{key!r} is in this store already; remove it first")
        wire.refuse_tensors(tensors, chunk)
        pieces = chunk.split() if self._placement == Placement.SPLIT else (chunk,)
        for_memory = () if self._placement == Placement.FILE else pieces[:1]
        demoted = not self._has_room(key, sum(map(encoded_bytes, for_memory)))
        self._parts[key] = []
        try:
            for piece in pieces:
                streams = {n: t for n, t in tensors.items() if n not in piece.left_out}
                content = bytearray(encoded_bytes(piece))
                wire.encode_into(content, chunk=piece, tensors=streams)
                part = _Part(chunk=piece, content=content)
                if piece not in for_memory or demoted:
                    part = self._in_file(part, demoted=piece in for_memory)
                self._parts[key].append(part)
        except BaseException:
            self.remove(key)
            raise
        return self.counts(key)

    def get(self, key: str, *, cold: bool = False) -> Fetched:
        """Return the tensors of a chunk; with `cold`, the system is asked to forget its file first.

        A file that was cut short, altered or exchanged is refused.
        """
        tensors, readings = {}, []
        for part in self._existing(key):
            content = part.content
            if part.path is not None:
                content, *reading = _read(part.path, encoded_bytes(part.chunk), forget=cold)
                readings.append(reading)
            try:
                tensors |= wire.decode_from(content, expected=part.chunk)
            except Corrupt as error:
                raise Corrupt(f"{key!r}, {part.path or 'in memory'}: {error}") from error
        # The least that is known of all files: None before False before True.
        nothing = (None, "nothing was read from a file")
        state, reason = min(readings, key=lambda r: (r[0] is not None, r[0]), default=nothing)
        return Fetched(tensors=tensors, read=self.counts(key), cold=state, reason=reason)

    def demote(self, key: str) -> TierBytes:
        """Move what is in memory of a chunk to a file; return its bytes as they are then."""
        parts = self._existing(key)
        if all(part.content is None for part in parts):
            raise BadInput(f"nothing of {key!r} is in memory")
        for number, part in enumerate(parts):
            if part.content is not None:
                parts[number] = self._in_file(part, demoted=True)
        return self.counts(key)

    def remove(self, key: str) -> None:
        """Forget a chunk and delete its files."""
        for part in self._existing(key):
            if part.path is not None:
                with explained(part.path):
                    part.path.unlink(missing_ok=True)
        del self._parts[key]

    def counts(self, key: str | None = None) -> TierBytes:
        """Bytes of one chunk, or of all."""
        chosen = self._parts.values() if key is None else [self._existing(key)]
        return sum((part.counts for parts in chosen for part in parts), TierBytes())

    def _existing(self, key: str) -> list[_Part]:
        if key not in self._parts:
            raise BadInput(f"{key!r} is not in this store of {len(self._parts)} chunks")
        return self._parts[key]

    def _has_room(self, key: str, size: int) -> bool:
        """False where the memory has none and the caller chose a file for that."""
        now = self.counts()
        taken = now.memory + now.memory_headers
        if self._memory_bytes is None or taken + size <= self._memory_bytes:
            return True
        if self._when_full == WhenFull.REFUSE:
            raise BadInput(
                f"{key!r} needs {size} bytes of memory; {self._memory_bytes - taken} of "
                f"{self._memory_bytes} are left: demote or remove others, or choose "
                "when_full='demote'"
            )
        return False

    def _in_file(self, part: _Part, *, demoted: bool) -> _Part:
        path = self._folder / f"{next(self._numbers):08}.kv"
        write_atomically(path, part.content)
        return replace(part, content=None, path=path, demoted=demoted)


def _read(path: Path, size: int, *, forget: bool) -> tuple[bytearray, bool | None, str]:
    """The bytes of a file, and as in Fetched whether they were cold."""
    content = bytearray(size)
    try:
        with open(path, "rb", buffering=0) as file:
            actual = os.fstat(file.fileno()).st_size
            if actual != size:
                raise Corrupt(f"{path} has {actual} bytes, wanted {size}: it was altered")
            if forget and hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            cold, reason = _is_cold(file.fileno(), size)
            left = memoryview(content)
            while left and (count_read := file.readinto(left)):
                left = left[count_read:]
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error
    return content, cold, reason


def _is_cold(descriptor: int, size: int) -> tuple[bool | None, str]:
    """Ask for bytes that need not be waited for: those are in the page cache."""
    if not hasattr(os, "RWF_NOWAIT"):
        return None, "this system does not say what is in its page cache"
    for place in (size - 1, size // 2, 0):  # backwards, for the system reads ahead
        try:
            os.preadv(descriptor, [bytearray(1)], place, os.RWF_NOWAIT)
        except BlockingIOError:
            continue
        except OSError as error:
            return None, f"this file system does not say what is cached: {error.strerror}"
        return False, "some of the file was in the page cache"
    return True, ""


def _chosen(value: str, choices: type[StrEnum], name: str) -> StrEnum:
    try:
        return choices(value)
    except ValueError as error:
        raise BadInput(f"{name} is {value!r}; wanted one of {', '.join(choices)}") from error
