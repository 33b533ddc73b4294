"""A file that a process appends what it prints to, kept small: its beginning and its end stay.

The writer never waits, as it might for a pipe, and whoever looks sees its last lines at once. While
it writes, the middle becomes a hole, which takes no room on the disk and no line from the end; when
it has ended, the middle is cut out. Where there are no holes (macOS, some file systems) it is cut
out at once, and what is written in that instant may be lost.
"""

import ctypes
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

KEPT_BYTES = 1 << 20  # of the beginning, and of the end


@dataclass(kw_only=True)
class BoundedFile:
    """The part of a file from `start` on, which is kept small."""

    path: Path
    start: int
    _hole_end: int = 0
    _left_out: int = 0
    _note: bytes = b""

    def trim(self, *, ended: bool = False) -> None:
        """Leave out the middle where it is as large as one of the parts that stay; `ended` where
        nobody appends any more."""
        place = self.start + KEPT_BYTES
        with suppress(OSError):  # it was removed, or the disk is full
            size = os.stat(self.path).st_size
            solid = size - (place if ended else max(self._hole_end, place + len(self._note)))
            if solid <= 2 * KEPT_BYTES:
                return
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND)  # as the writer does
            try:
                if not ended and _punched(descriptor, place, size - KEPT_BYTES):
                    self._hole_end = size - KEPT_BYTES
                else:
                    self._cut(descriptor, place, size)
            finally:
                os.close(descriptor)

    def _cut(self, descriptor: int, place: int, size: int) -> None:
        end = os.pread(descriptor, KEPT_BYTES, size - KEPT_BYTES)
        self._left_out += size - KEPT_BYTES - place - len(self._note)
        self._note = f"\n== {self._left_out:,} bytes are left out here\n".encode()
        os.ftruncate(descriptor, place)
        os.write(descriptor, self._note + end)


def _punched(descriptor: int, begin: int, end: int) -> bool:
    """Make a part of a file a hole; False where that cannot be done."""
    if sys.platform != "linux":
        return False
    keep_size_and_punch_hole = 3
    fallocate = ctypes.CDLL(None).fallocate
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return fallocate(descriptor, keep_size_and_punch_hole, begin, end - begin) == 0


def appended(*paths: str | Path) -> list[BoundedFile]:
    """Parts that are appended to files from now on; those that are not there begin empty."""
    distinct = dict.fromkeys(map(Path, paths))
    sizes = {path: path.stat().st_size if path.exists() else 0 for path in distinct}
    return [BoundedFile(path=path, start=size) for path, size in sizes.items()]


def trim(files: Iterable[BoundedFile], *, ended: bool = False) -> None:
    """Keep files small."""
    for file in files:
        file.trim(ended=ended)
