"""Tensors in the safetensors form, written as they lie in memory and read without another copy.

Eight bytes with the length of a JSON header, the header, then the tensors one after the other. The
form is that of huggingface/safetensors; widest dtypes come first, so that every tensor is aligned.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from assay.captures.tensor import STORED_AS, Tensor
from assay.errors import BadInput

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
_LENGTH_BYTES = 8
_NOTE = "assay"  # the entry of __metadata__ that holds the note
_METADATA = "__metadata__"


def parts(tensors: Mapping[str, Tensor], note: str) -> list[memoryview]:
    """The bytes of a file in pieces; nothing that is contiguous is copied."""
    ordered = sorted(tensors.items(), key=lambda item: -item[1].bits.itemsize)
    header: dict[str, Any] = {_METADATA: {_NOTE: note}} if note else {}
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
    found = [memoryview(len(text).to_bytes(_LENGTH_BYTES, "little") + text)]
    for _, tensor in ordered:
        if tensor.nbytes:
            flat = np.ascontiguousarray(tensor.bits).reshape(-1)
            found.append(memoryview(flat.view(np.uint8)))
    return found


def tensors_of(content: np.ndarray, path: object) -> tuple[dict[str, Tensor], str]:
    """The tensors of a file's bytes, as views of them, and its note."""
    header, start = _header(content, path)
    metadata = header.pop(_METADATA, {})
    data = content[start:]
    found, expected = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: _offsets(*item, path)):
        begin, end = _offsets(name, entry, path)
        if begin != expected or not begin <= end <= len(data):
            raise _refused(path, f"{name} lies at {begin}:{end}, where it may not")
        found[name] = _tensor(name, entry, data[begin:end], path)
        expected = end
    if expected != len(data):
        raise _refused(path, f"{len(data) - expected} bytes at its end belong to no tensor")
    note = metadata.get(_NOTE, "") if isinstance(metadata, dict) else ""
    return found, note if isinstance(note, str) else ""


def _header(content: np.ndarray, path: object) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(content[:_LENGTH_BYTES].tobytes(), "little")
    start = _LENGTH_BYTES + length
    if len(content) < _LENGTH_BYTES or start > len(content):
        raise _refused(path, "it is shorter than its header says")
    try:
        header = json.loads(content[_LENGTH_BYTES:start].tobytes())
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"its header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise _refused(path, "its header is not a JSON object")
    return header, start


def _offsets(name: str, entry: Any, path: object) -> tuple[int, int]:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not _are_counts(offsets) or len(offsets) != 2:
        raise _refused(path, f"{name} has no data_offsets")
    return offsets[0], offsets[1]


def _tensor(name: str, entry: dict[str, Any], data: np.ndarray, path: object) -> Tensor:
    dtype, shape = _DTYPES.get(str(entry.get("dtype"))), entry.get("shape")
    if dtype is None:
        raise BadInput(f"{path}: {name} is {entry.get('dtype')}, which captures do not have")
    holder = np.dtype(STORED_AS[dtype])
    if not _are_counts(shape) or math.prod(shape) * holder.itemsize != len(data):
        raise _refused(path, f"{name} of shape {shape} and {dtype} does not fill {len(data)} bytes")
    array = data.view(holder).reshape(shape)
    return Tensor(dtype, array if array.flags.aligned else array.copy())


def _are_counts(values: Any) -> bool:
    return isinstance(values, Sequence) and all(type(v) is int and v >= 0 for v in values)


def _refused(path: object, why: str) -> BadInput:
    return BadInput(f"{path} is not a safetensors file that captures have: {why}")
