"""File formats of named tensors: safetensors in a store, compressed npz for exchange.

The safetensors library reads and checks headers: it refuses shapes, dtypes and offsets that do not
fit the file before memory is taken. Tensors are then views of the bytes that were read for the
checksum. Its own arrays are not used, since NumPy has no bfloat16 and float8, and since copies
cost: of 256 MiB of bfloat16, in CPU time on a Neoverse-N1 with safetensors 0.8, `deserialize`
takes 0.28 s and 512 MiB where a read here takes 0.10 s and 256 MiB, checksum included; `serialize`
copies everything once more, and `serialize_file` gives neither the checksum nor, before it writes,
the size that a budget needs. So headers are written here.
    python -m timeit -p -s "import safetensors" "safetensors.deserialize(open(F, 'rb').read())"
"""

import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from tokenize import TokenError
from typing import Any

import msgspec
import numpy as np
from numpy.lib import format as npy

from assay.captures.tensor import STORED_AS, Tensor
from assay.errors import BadInput, CannotRunHere

FORMATS = ("safetensors", "npz")
NPZ_SCHEMA = 1
# dtype -> its code in the header of a safetensors file
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
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
# In both formats the entry that is assay's own: of __metadata__, and an array of bytes.
_NOTE = "assay"
# Raised by zipfile and NumPy for files that are damaged or claim more than they hold.
_CORRUPT = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    RuntimeError,
    OSError,
    MemoryError,
    OverflowError,
    TypeError,
    SyntaxError,  # NumPy parses the header of an array as Python's literals
    TokenError,
)
_MEMORY_SHARE = 0.5  # of this machine's memory that an npz file may take unpacked
# And no more than the larger of these: a mask shrinks a thousandfold, values of q, k and v do not.
_UNPACKED_BYTES, _UNPACKED_TIMES = 1 << 30, 100
_NPY_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def encode(tensors: Mapping[str, Tensor], *, form: str, note: str = "") -> list[memoryview]:
    """Return the bytes of a file in pieces. `note` is text that travels in the file."""
    return (_encode_npz if form == "npz" else _encode_safetensors)(tensors, note)


def decode(path: Path, content: np.ndarray) -> tuple[dict[str, Tensor], str]:
    """Return the tensors and the note of the file `path`, whose bytes are `content` [n] of uint8.

    BadInput where it is not a file that `encode` could have made.
    """
    return (_decode_npz if path.suffix == ".npz" else _decode_safetensors)(path, content)


def _encode_safetensors(tensors: Mapping[str, Tensor], note: str) -> list[memoryview]:
    """Copy nothing that is contiguous. The widest dtype comes first, so that all are aligned."""
    ordered = sorted(tensors.items(), key=lambda item: -item[1].bits.itemsize)
    header: dict[str, Any] = {"__metadata__": {_NOTE: note}} if note else {}
    end = 0
    for name, tensor in ordered:
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": _CODES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of eight bytes
    parts = [memoryview(len(text).to_bytes(8, "little") + text)]
    for _, tensor in ordered:
        if tensor.nbytes:
            flat = np.ascontiguousarray(tensor.bits).reshape(-1)
            parts.append(memoryview(flat.view(np.uint8)))
    return parts


def _decode_safetensors(path: Path, content: np.ndarray) -> tuple[dict[str, Tensor], str]:
    """Give tensors as views of `content`; one that is not aligned there is copied."""
    note, entries = _safetensors_header(path)
    sizes = [math.prod(shape) * np.dtype(STORED_AS[dtype]).itemsize for _, dtype, shape in entries]
    end = len(content) - sum(sizes)
    if end < 0:
        raise BadInput(f"{path} was replaced while it was read; read it again")
    tensors = {}
    for (name, dtype, shape), size in zip(entries, sizes, strict=True):
        start, end = end, end + size
        array = content[start:end].view(STORED_AS[dtype]).reshape(shape)
        tensors[name] = Tensor(dtype, array if array.flags.aligned else array.copy())
    return tensors, note


def _safetensors_header(path: Path) -> tuple[str, list[tuple[str, str, list[int]]]]:
    """Return the note, and name, dtype and shape of each tensor in the order of their bytes."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise CannotRunHere(
            f"{path} is read with safetensors, which is missing; pip install 'safetensors>=0.6'"
        ) from error
    entries = []
    try:
        with safe_open(path, framework="numpy") as file:
            note = (file.metadata() or {}).get(_NOTE, "")
            for name in file.offset_keys():
                tensor = file.get_slice(name)
                entries.append((name, tensor.get_dtype(), tensor.get_shape()))
    except (SafetensorError, OSError) as error:
        raise BadInput(f"{path} cannot be read as safetensors: {error}") from error
    for name, code, _ in entries:
        if code not in _DTYPES:
            raise BadInput(f"{path}: {name} is {code}, a dtype that captures do not have")
    return note, [(name, _DTYPES[code], shape) for name, code, shape in entries]


def _encode_npz(tensors: Mapping[str, Tensor], note: str) -> list[memoryview]:
    """The entry `assay` holds the dtypes, which NumPy may lack, and the note, as bytes of JSON."""
    dtypes = {name: tensor.dtype for name, tensor in tensors.items()}
    text = json.dumps({"schema": NPZ_SCHEMA, "dtypes": dtypes, "note": note}).encode()
    arrays = {name: tensor.bits for name, tensor in tensors.items()}
    arrays[_NOTE] = np.frombuffer(text, np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return [buffer.getbuffer()]


def _decode_npz(path: Path, content: np.ndarray) -> tuple[dict[str, Tensor], str]:
    arrays = npz_arrays(path, content)
    if _NOTE not in arrays:
        raise BadInput(
            f"{path} was not written by assay: it has {', '.join(arrays) or 'nothing'} but no "
            f"entry {_NOTE!r} with the dtypes; `assay capture import --foreign` takes q, k and v"
        )
    dtypes, note = _npz_note(path, arrays.pop(_NOTE))
    if set(dtypes) != set(arrays):
        raise BadInput(f"{path} holds other arrays than its entry {_NOTE!r} names")
    return {name: Tensor(dtypes[name], array) for name, array in arrays.items()}, note


def _npz_note(path: Path, entry: np.ndarray) -> tuple[dict[str, str], str]:
    try:
        fields = json.loads(entry.tobytes())
        schema, dtypes, note = fields["schema"], dict(fields["dtypes"]), str(fields["note"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadInput(f"{path}: its entry {_NOTE!r} cannot be understood: {error}") from error
    if schema != NPZ_SCHEMA:
        raise BadInput(f"{path}: schema {schema}, this assay reads {NPZ_SCHEMA}")
    return dtypes, note


def npz_arrays(path: Path, content: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays of any npz file; one of objects is refused, never unpickled."""
    try:
        with zipfile.ZipFile(io.BytesIO(memoryview(content))) as file:
            _check_npz_entries(path, file.infolist(), len(content))
            for entry in file.infolist():
                _check_npy_size(file, entry)
            return {e.filename.removesuffix(".npy"): _npz_array(file, e) for e in file.infolist()}
    except BadInput:
        raise
    except _CORRUPT as error:
        raise BadInput(f"{path} cannot be read as npz: {error}") from error


def _check_npz_entries(path: Path, entries: list[zipfile.ZipInfo], size: int) -> None:
    """Refuse a file by its directory alone, before any of it is unpacked."""
    unpacked = sum(entry.file_size for entry in entries)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if unpacked > memory * _MEMORY_SHARE:
        raise BadInput(
            f"{path} claims {unpacked / 1e9:.1f} GB unpacked; this machine takes up to "
            f"{memory * _MEMORY_SHARE / 1e9:.1f} GB"
        )
    if unpacked > max(_UNPACKED_BYTES, _UNPACKED_TIMES * size):
        raise BadInput(
            f"{path} claims {unpacked / 1e9:.1f} GB unpacked, and has {size / 1e6:.1f} MB: more "
            f"than {_UNPACKED_TIMES} times that, and more than {_UNPACKED_BYTES / 1e9:.1f} GB. "
            "Where it is what it says, write it without compression: numpy.savez"
        )
    if len({entry.filename for entry in entries}) != len(entries):
        raise BadInput(f"{path} has two entries of one name")
    for entry in entries:
        if not entry.filename.endswith(".npy"):
            raise BadInput(f"{path}: {entry.filename} is not an array")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadInput(f"{path}: {entry.filename} is compressed in a way that npz does not use")


def _check_npy_size(file: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """Refuse an array whose own header and whose entry in the zip differ in its size."""
    with file.open(entry) as stream:
        version = npy.read_magic(stream)
        if version not in _NPY_HEADERS:
            raise ValueError(f"{entry.filename} has version {version}; wanted 1.0 or 2.0")
        shape, _, dtype = _NPY_HEADERS[version](stream)
        size = stream.tell() + math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and size != entry.file_size:
        relation = "more" if entry.file_size > size else "less"
        raise ValueError(f"{entry.filename} says shape {shape} of {dtype} and holds {relation}")


def _npz_array(file: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with file.open(entry) as stream:
        array = npy.read_array(stream, allow_pickle=False)
        stream.read(1)  # at the end zipfile compares the entry's own checksum
    return array
