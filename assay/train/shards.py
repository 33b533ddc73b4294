"""Shards: the tokens of a split in raw files that are mapped into memory, never read whole.

A file is `<split>-<number>.bin`, tokens one after the other in little-endian uint16, or uint32
where the vocabulary is too large for that. What a file must hold is in its ShardEntry.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from assay.errors import BadInput
from assay.records.durable import explained

SHARD_TOKENS = 1 << 26  # 128 MiB of uint16
_CHUNK_BYTES = 1 << 20


class ShardEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A shard as it was written."""

    file: str
    tokens: int
    sha256: str


def dtype_for(vocabulary: int) -> str:
    """The dtype of tokens below `vocabulary`: uint16 as long as it can hold them."""
    return "uint16" if vocabulary <= 1 << 16 else "uint32"


class ShardWriter:
    """Shards of a split, written as tokens come; `close` makes them durable and lists them."""

    def __init__(
        self, folder: Path, split: str, *, dtype: str, shard_tokens: int = SHARD_TOKENS
    ) -> None:
        self._folder, self._split = folder, split
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._shard_tokens = shard_tokens
        self._entries: list[ShardEntry] = []
        self._file = None
        self.tokens = 0  # in all shards

    def append(self, tokens: np.ndarray) -> None:
        """Add tokens of any integer dtype; what the shard's dtype cannot hold is refused."""
        limit = np.iinfo(self._dtype).max
        if tokens.size and not 0 <= int(tokens.min()) <= int(tokens.max()) <= limit:
            raise ValueError(
                f"tokens from {tokens.min()} to {tokens.max()} do not fit into "
                f"{self._dtype.name}, which ends at {limit}; write them with a larger dtype"
            )
        encoded = tokens.astype(self._dtype)
        while len(encoded):
            if self._file is None:
                self._open()
            part, encoded = np.split(encoded, [self._shard_tokens - self._in_shard])
            self._write(part)
            if self._in_shard == self._shard_tokens:
                self._finish()

    def close(self) -> list[ShardEntry]:
        """End the last shard; the entries of all of them in their order."""
        if self._file is not None:
            self._finish()
        return self._entries

    def discard(self) -> None:
        """Close what is open and promise nothing about it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        self._path = self._folder / f"{self._split}-{len(self._entries):05d}.bin"
        with explained(self._path):
            self._file = open(self._path, "xb")  # noqa: SIM115
        self._digest, self._in_shard = hashlib.sha256(), 0

    def _write(self, part: np.ndarray) -> None:
        content = part.tobytes()
        with explained(self._path):
            self._file.write(content)
        self._digest.update(content)
        self._in_shard += len(part)
        self.tokens += len(part)

    def _finish(self) -> None:
        with explained(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        self._file = None
        entry = ShardEntry(
            file=self._path.name, tokens=self._in_shard, sha256=self._digest.hexdigest()
        )
        self._entries.append(entry)


def require_whole(folder: Path, entry: ShardEntry, *, dtype: str) -> None:
    """Refuse a shard that is missing, of another size or of another content than its entry."""
    path = folder / entry.file
    advice = f"remove the folder {folder} and prepare the data again"
    wanted = entry.tokens * np.dtype(dtype).itemsize
    try:
        size = path.stat().st_size
        if size != wanted:
            raise BadInput(f"{path} has {size:,} bytes, wanted {wanted:,}; {advice}")
        digest = _sha256(path)
    except FileNotFoundError as error:
        raise BadInput(f"{path} is missing, wanted {wanted:,} bytes; {advice}") from error
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}; {advice}") from error
    if digest != entry.sha256:
        raise BadInput(
            f"{path} was changed after it was written: its sha256 is {digest}, wanted "
            f"{entry.sha256}; {advice}"
        )


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


class Tokens:
    """The shards of a split as one sequence of tokens."""

    def __init__(self, paths: Sequence[Path], *, dtype: str) -> None:
        kind = np.dtype(dtype).newbyteorder("<")
        self._shards = [np.memmap(path, dtype=kind, mode="r") for path in paths]
        self._starts = np.cumsum([0, *(len(shard) for shard in self._shards)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def window(self, start: int, count: int) -> np.ndarray:
        """Tokens start to start + count - 1 as int64 [count], copied, across shards."""
        if start < 0 or count < 0 or start + count > len(self):
            raise ValueError(
                f"tokens {start:,} to {start + count:,} were asked of a split of {len(self):,}; "
                "ask for some that are there"
            )
        window = np.empty(count, dtype=np.int64)
        filled = 0
        shard = int(np.searchsorted(self._starts, start, side="right")) - 1
        while filled < count:
            offset = start + filled - int(self._starts[shard])
            part = self._shards[shard][offset : offset + count - filled]
            window[filled : filled + len(part)] = part
            filled += len(part)
            shard += 1
        return window
