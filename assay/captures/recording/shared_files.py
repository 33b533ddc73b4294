"""Tensors that many records have alike, such as masks: one file for each, named by its digest.

Whoever meets a tensor first writes it; two processes that meet it at once write the same file, each
in one piece, so it does not matter whose stays.
"""

from dataclasses import dataclass
from pathlib import Path

from assay.captures import formats, tensor_files
from assay.captures.checksum import checksum_of
from assay.captures.tensor import Tensor
from assay.records.durable import explained, sync_folder

NAMES = ("mask",)


@dataclass(frozen=True, kw_only=True)
class SharedFile:
    """A file to be, and whether it is there."""

    path: Path
    parts: list[memoryview]
    checksum: str
    known: bool

    @property
    def new_bytes(self) -> int:
        return 0 if self.known else sum(map(len, self.parts))


class SharedFiles:
    """The files that several records refer to."""

    def __init__(self, folder: Path, *, form: str, sync: bool) -> None:
        self._folder = folder
        self._form = form
        self._sync = sync
        self._durable = True

    def of(self, name: str, tensor: Tensor) -> SharedFile:
        """The file for a tensor, not yet written."""
        path = self._folder / f"{tensor.digest()}.{self._form}"
        parts = formats.encode({name: tensor}, form=self._form)
        known = path.is_file() and path.stat().st_size == sum(map(len, parts))
        checksum = checksum_of(parts)
        self._durable = False  # another process may have named it a moment ago
        return SharedFile(path=path, parts=parts, checksum=checksum, known=known)

    def write(self, file: SharedFile) -> None:
        if not file.known:
            tensor_files.write_parts(file.path, file.parts, sync=self._sync)

    def settle(self) -> None:
        """Make the names of the files durable."""
        if self._sync and not self._durable:
            with explained(self._folder):
                sync_folder(self._folder)
            self._durable = True
