"""Tensors in compressed npz files, the plain form for exchange.

The entry `assay` holds, as the bytes of a JSON text, the dtype of each array and a note. Reading
never unpickles, and looks at what a file claims to hold before it makes room for it.
"""

import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from assay.captures.tensor import Tensor
from assay.errors import BadInput

MARK = "assay"
SCHEMA = 1
_LEVEL = 1  # numbers of a model hardly shrink further at more, masks and empty caches need no more
_SHARE = 0.5  # of this machine's memory that a file may take unpacked


def parts(tensors: Mapping[str, Tensor], note: str) -> list[memoryview]:
    """The bytes of a file."""
    mark = {
        "schema": SCHEMA,
        "dtypes": {name: tensor.dtype for name, tensor in tensors.items()},
        "note": note,
    }
    marked = np.frombuffer(json.dumps(mark).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as file:
        for name, array in {**{n: t.bits for n, t in tensors.items()}, MARK: marked}.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # its date is fixed: equal tensors, equal files
            entry.compress_type = zipfile.ZIP_DEFLATED
            with file.open(entry, "w", force_zip64=True) as stream:
                npy.write_array(stream, np.asanyarray(array), version=(1, 0), allow_pickle=False)
    return [buffer.getbuffer()]


def tensors_of(content: np.ndarray, path: object) -> tuple[dict[str, Tensor], str]:
    """The tensors of a file that `parts` made, and its note."""
    arrays = arrays_of(content, path)
    if MARK not in arrays:
        raise BadInput(
            f"{path} was not written by assay: it has {', '.join(arrays) or 'nothing'} but no "
            f"entry {MARK!r} with the dtypes; `assay capture import --foreign` takes q, k and v"
        )
    mark = _mark(arrays.pop(MARK), path)
    if set(mark["dtypes"]) != set(arrays):
        raise BadInput(f"{path} holds other arrays than its entry {MARK!r} names")
    return {n: Tensor(mark["dtypes"][n], array) for n, array in arrays.items()}, mark["note"]


def arrays_of(content: np.ndarray, path: object) -> dict[str, np.ndarray]:
    """The arrays of any npz file, none of them of objects."""
    try:
        with zipfile.ZipFile(io.BytesIO(memoryview(content))) as file:
            entries = file.infolist()
            _check_size(entries, path)
            return {e.filename.removesuffix(".npy"): _array(file, e, path) for e in entries}
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, OSError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path} is not a whole npz file: {error}") from error


def _check_size(entries: list[zipfile.ZipInfo], path: object) -> None:
    claimed = sum(entry.file_size for entry in entries)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if claimed > memory * _SHARE:
        raise BadInput(
            f"{path} claims {claimed / 1e9:.1f} GB unpacked; this machine takes up to "
            f"{memory * _SHARE / 1e9:.1f} GB"
        )
    names = [entry.filename for entry in entries]
    if len(set(names)) != len(names):
        raise BadInput(f"{path} has two entries of one name")


def _array(file: zipfile.ZipFile, entry: zipfile.ZipInfo, path: object) -> np.ndarray:
    name = entry.filename
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BadInput(f"{path}: {name} is packed in a way that npz files do not use")
    with file.open(entry) as stream:
        shape, fortran, dtype = _shape_of(stream, name, path)
        count = math.prod(shape)
        if stream.tell() + count * dtype.itemsize != entry.file_size:
            raise BadInput(
                f"{path}: {name} says shape {shape} of {dtype}, which is not what its "
                f"{entry.file_size} bytes hold"
            )
        array = np.empty(count, dtype)
        _fill(stream, memoryview(array.view(np.uint8)) if array.nbytes else memoryview(b""))
        stream.read(1)  # at the end the entry's own checksum is compared
    return array.reshape(shape, order="F" if fortran else "C")


def _shape_of(stream: IO[bytes], name: str, path: object) -> tuple[tuple[int, ...], bool, Any]:
    if not name.endswith(".npy"):
        raise BadInput(f"{path}: {name} is not an array")
    version = npy.read_magic(stream)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise BadInput(f"{path}: {name} is an array of a form {version} that is not read here")
    shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise BadInput(f"{path}: {name} holds pickled objects, which are never loaded")
    if any(size < 0 for size in shape):
        raise BadInput(f"{path}: {name} says shape {shape}")
    return shape, fortran, dtype


def _fill(stream: IO[bytes], room: memoryview) -> None:
    while room:
        count = stream.readinto(room)
        if not count:
            raise EOFError("it ends before its arrays do")
        room = room[count:]


def _mark(entry: np.ndarray, path: object) -> dict[str, Any]:
    try:
        mark = json.loads(entry.tobytes())
        schema, dtypes, note = mark["schema"], dict(mark["dtypes"]), str(mark["note"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadInput(f"{path}: its entry {MARK!r} cannot be understood: {error}") from error
    if schema != SCHEMA:
        raise BadInput(f"{path}: schema {schema}, this assay reads {SCHEMA}")
    return {"dtypes": dtypes, "note": note}
