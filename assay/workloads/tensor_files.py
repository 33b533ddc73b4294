"""Files of named tensors, whole or not there: safetensors, and compressed npz for exchange.

A file is written beside its place, made durable and then given its name. Reading refuses what is
cut short, changed or of another kind; nothing in a file is ever executed.
"""

import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from assay.errors import BadInput
from assay.records.durable import explained
from assay.workloads.tensor import STORED_AS, Tensor

FORMS = ("safetensors", "npz")
_CODES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}
_DTYPES = {code: name for name, code in _CODES.items()}
# In an npz: a JSON text, as bytes, with the dtype of each array.
NPZ_MARK = "assay"
NPZ_SCHEMA = 1


def write(
    path: Path, tensors: Mapping[str, Tensor], *, note: str = "", sync: bool = True
) -> tuple[str, int]:
    """Write `tensors` to `path`, in the form that its ending names; its checksum and size.

    `note` is text that travels in the file, so that a file alone says what it holds.
    """
    parts = encoded(tensors, form=path.suffix[1:], note=note)
    return write_parts(path, parts, sync=sync), sum(map(len, parts))


def encoded(tensors: Mapping[str, Tensor], *, form: str, note: str = "") -> list[memoryview]:
    """The bytes of a file, in pieces; tensors of a safetensors file are not copied."""
    return list((_npz_parts if form == "npz" else _safetensors_parts)(tensors, note))


def write_parts(path: Path, parts: Sequence[memoryview], *, sync: bool = True) -> str:
    """Write a file in one piece or not at all; its checksum."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    checksum = 0
    with explained(path):
        try:
            with open(temporary, "xb", buffering=0) as file:
                for part in parts:
                    checksum = zlib.crc32(part, checksum)
                    _write_all(file.fileno(), part)
                if sync:
                    os.fsync(file.fileno())
            os.rename(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    return f"crc32:{checksum:08x}"


def read(path: Path, *, checksum: str | None = None, size: int | None = None) -> dict[str, Tensor]:
    """The tensors of a file; BadInput where it is not what `write` wrote."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error
    if size is not None and len(content) != size:
        raise BadInput(
            f"{path} has {len(content)} bytes, the manifest says {size}: it was cut short or "
            "changed; restore it, or capture again"
        )
    if checksum is not None and f"crc32:{zlib.crc32(content):08x}" != checksum:
        raise BadInput(
            f"{path} has checksum crc32:{zlib.crc32(content):08x}, the manifest says {checksum}: "
            "its content was changed; restore it, or capture again"
        )
    return _from_npz(content, path) if path.suffix == ".npz" else _from_safetensors(content, path)


def _safetensors_parts(tensors: Mapping[str, Tensor], note: str) -> Iterator[memoryview]:
    """The file in pieces, tensors as they lie in memory: nothing is copied."""
    header: dict[str, Any] = {"__metadata__": {"assay": note}} if note else {}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": _CODES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of eight bytes
    yield memoryview(struct.pack("<Q", len(text)) + text)
    for tensor in tensors.values():
        if tensor.nbytes:
            yield memoryview(np.ascontiguousarray(tensor.bits).reshape(-1).view(np.uint8))


def _from_safetensors(content: bytes, path: Path) -> dict[str, Tensor]:
    import safetensors

    try:
        found = safetensors.deserialize(content)
    except safetensors.SafetensorError as error:
        raise BadInput(f"{path} is not a safetensors file: {error}") from error
    tensors = {}
    for name, entry in found:
        dtype = _DTYPES.get(entry["dtype"])
        if dtype is None:
            raise BadInput(f"{path}: {name} is {entry['dtype']}, which captures do not have")
        array = np.frombuffer(entry["data"], dtype=STORED_AS[dtype]).reshape(entry["shape"])
        tensors[name] = Tensor(dtype, array)
    return tensors


def _npz_parts(tensors: Mapping[str, Tensor], note: str) -> Iterator[memoryview]:
    buffer = io.BytesIO()
    dtypes = {name: tensor.dtype for name, tensor in tensors.items()}
    mark = {"schema": NPZ_SCHEMA, "dtypes": dtypes, "note": note}
    marked = np.frombuffer(json.dumps(mark).encode(), dtype=np.uint8)
    np.savez_compressed(buffer, **{NPZ_MARK: marked}, **{n: t.bits for n, t in tensors.items()})
    yield buffer.getbuffer()


def _from_npz(content: bytes, path: Path) -> dict[str, Tensor]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        why = (
            "it holds pickled objects, which are never loaded" if "pickle" in str(error) else error
        )
        raise BadInput(f"{path} cannot be read as a capture: {why}") from error
    if NPZ_MARK not in arrays:
        raise BadInput(
            f"{path} was not written by assay: it has {', '.join(arrays) or 'nothing'} but no "
            f"entry {NPZ_MARK!r} with the dtypes; `assay capture import --foreign` takes q, k and v"
        )
    mark = _npz_mark(arrays.pop(NPZ_MARK), path)
    if set(mark["dtypes"]) != set(arrays):
        raise BadInput(f"{path} holds other arrays than its entry {NPZ_MARK!r} names")
    return {name: Tensor(mark["dtypes"][name], array) for name, array in arrays.items()}


def _npz_mark(entry: np.ndarray, path: Path) -> dict[str, Any]:
    try:
        mark = json.loads(entry.tobytes())
        if mark["schema"] != NPZ_SCHEMA:
            raise BadInput(f"{path}: schema {mark['schema']}, this assay reads {NPZ_SCHEMA}")
        return {"dtypes": dict(mark["dtypes"]), **mark}
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path}: its entry {NPZ_MARK!r} cannot be understood: {error}") from error


def _write_all(descriptor: int, content: memoryview) -> None:
    while content:
        content = content[os.write(descriptor, content) :]
