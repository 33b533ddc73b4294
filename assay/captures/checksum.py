"""A checksum that keeps up with the fastest disk: sums of words, along and across blocks.

The bytes, with zeros up to a whole number of blocks of 8 KiB, are a table of 64-bit words (little
end first), a block to a row of 1024. The sums of its rows and of its columns (modulo 2^64) and the
number of bytes are digested with BLAKE2b. Any changed word shows in its row and its column, blocks
that changed places in the order of the rows. It guards against accidents, not against forgers.
"""

import hashlib
from collections.abc import Iterable

import numpy as np

_WORDS = 1024
_BLOCK = 8 * _WORDS
_CHUNK = 512 * _BLOCK  # 4 MiB at a time: from the cache, in few calls as each may have to wait


class Checksum:
    """Of bytes that come in pieces."""

    def __init__(self) -> None:
        self._columns = np.zeros(_WORDS, np.uint64)
        self._rows: list[np.ndarray] = []
        self._rest = b""
        self._size = 0

    def add(self, part: memoryview) -> None:
        data = np.frombuffer(part, np.uint8)
        self._size += len(data)
        if self._rest:
            missing = _BLOCK - len(self._rest)
            self._rest += data[:missing].tobytes()
            data = data[missing:]
            if len(self._rest) < _BLOCK:
                return
            self._sum(np.frombuffer(self._rest, np.uint8))
        whole = len(data) // _BLOCK * _BLOCK
        for start in range(0, whole, _CHUNK):
            self._sum(data[start : min(start + _CHUNK, whole)])
        self._rest = data[whole:].tobytes()

    def text(self) -> str:
        """Of all that came so far, which must not go on."""
        if self._rest:
            self._sum(np.frombuffer(self._rest.ljust(_BLOCK, b"\0"), np.uint8))
            self._rest = b""
        digest = hashlib.blake2b(self._size.to_bytes(8, "little"), digest_size=8)
        for sums in (*self._rows, self._columns):
            digest.update(sums.astype("<u8"))
        return f"sums64:{digest.hexdigest()}"

    def _sum(self, blocks: np.ndarray) -> None:
        table = blocks.view("<u8").reshape(-1, _WORDS)
        self._rows.append(table.sum(axis=1, dtype=np.uint64))
        self._columns += table.sum(axis=0, dtype=np.uint64)


def checksum_of(parts: Iterable[memoryview]) -> str:
    """That of pieces one after the other."""
    checksum = Checksum()
    for part in parts:
        checksum.add(part)
    return checksum.text()
