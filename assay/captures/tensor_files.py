"""Files of named tensors, whole or absent.

A file is written beside its place, made durable and then given its name. Reading refuses what was
cut short, changed or is of another format; nothing in a file is ever executed.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from assay.captures import formats
from assay.captures.tensor import Tensor
from assay.errors import BadInput
from assay.records.checksum import checksum_of
from assay.records.durable import explained, write_all


def write(
    path: Path, tensors: Mapping[str, Tensor], *, note: str = "", sync: bool = True
) -> tuple[str, int]:
    """Write `tensors` to `path` in the format that its suffix names; return checksum and size.

    `note` is text that travels in the file, so that a file alone says what it holds.
    """
    parts = formats.encode(tensors, form=path.suffix[1:], note=note)
    return write_parts(path, parts, sync=sync), sum(map(len, parts))


def write_parts(path: Path, parts: Sequence[memoryview], *, sync: bool = True) -> str:
    """Write a file in one piece or not at all; return its checksum."""
    checksum = checksum_of(parts)
    temporary = f"{path.parent}/.{path.name}.{os.urandom(4).hex()}"
    with explained(path):
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            try:
                write_all(descriptor, parts)
                if sync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.rename(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    return checksum


def read(path: Path, *, checksum: str | None = None, size: int | None = None) -> dict[str, Tensor]:
    """Return the tensors of a file; BadInput where it is not what `write` wrote."""
    return read_with_note(path, checksum=checksum, size=size)[0]


def read_with_note(
    path: Path, *, checksum: str | None = None, size: int | None = None
) -> tuple[dict[str, Tensor], str]:
    """Return the tensors of a file and the text that travels with them."""
    content = read_bytes(path, size=size)
    if checksum is not None and (actual := checksum_of([memoryview(content)])) != checksum:
        raise BadInput(
            f"{path} has checksum {actual}, the manifest says {checksum}: its content was changed; "
            "restore it, or capture again"
        )
    return formats.decode(path, content)


def read_bytes(path: Path, *, size: int | None = None) -> np.ndarray:
    """Return the bytes of a file, [n] of uint8; BadInput where they are not `size` many."""
    try:
        if path.exists() and not path.is_file():
            raise BadInput(f"{path} is not a file")
        with open(path, "rb") as file:
            actual = os.fstat(file.fileno()).st_size
            if size is not None and actual != size:
                raise BadInput(
                    f"{path} has {actual} bytes, the manifest says {size}: it was cut short or "
                    "changed; restore it, or capture again"
                )
            return np.fromfile(file, np.uint8)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error
