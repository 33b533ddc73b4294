"""Serialized form of what one layer keeps of a run of tokens: header, streams, checksum.

The size is known first, and buffers are the caller's. A reader says what it expects; what a buffer
holds is that, bit for bit, or refused (kv/header.py): nothing is converted, guessed or executed.
"""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from assay.errors import BadInput, CannotRunHere
from assay.kv import header
from assay.kv.chunk import Chunk
from assay.kv.header import CHECKSUM_BYTES, Corrupt, encoded_bytes
from assay.records.checksum import checksum_of
from assay.records.schema import ELEMENT_BYTES

_ADDRESS = max(ELEMENT_BYTES.values())  # what the address of tensors is a multiple of


def encode_into(buffer: Any, *, chunk: Chunk, tensors: Mapping[str, torch.Tensor]) -> int:
    """Write a chunk into the start of a writable buffer; return the bytes written, which are
    `encoded_bytes(chunk)`.

    `tensors` are what the layout's `encode` made, less what the chunk leaves out.
    """
    refuse_tensors(tensors, chunk)
    for name, view in stream_views(buffer, chunk=chunk).items():
        view.copy_(tensors[name].detach())
    return seal(buffer, chunk=chunk)


def stream_views(buffer: Any, *, chunk: Chunk) -> dict[str, torch.Tensor]:
    """Return tensors in the buffer's own memory, to be filled before `seal`: an encoder that
    writes into them saves a copy."""
    window = _writable(buffer, encoded_bytes(chunk))
    if np.frombuffer(window, np.uint8).ctypes.data % _ADDRESS:
        raise BadInput(
            f"the buffer begins at an address that is no multiple of {_ADDRESS}, as tensors need; "
            "give one that was not sliced there"
        )
    return {
        place.stream.name: torch.frombuffer(
            window, dtype=torch.uint8, offset=place.offset, count=place.length
        )
        .view(getattr(torch, place.stream.dtype))
        .view(chunk.shape(place.stream))
        for place in header.places(chunk)
        if place.length
    }


def seal(buffer: Any, *, chunk: Chunk) -> int:
    """Write all but the streams, which are in place; return the bytes of the whole."""
    size = encoded_bytes(chunk)
    window = _writable(buffer, size)
    window[: header.header_bytes(chunk)] = header.packed(chunk)
    for start, end in header.gaps(chunk):
        window[start:end] = bytes(end - start)
    window[size - CHECKSUM_BYTES :] = _checksum(window)
    return size


def decode_from(
    buffer: Any, *, expected: Chunk, into: Mapping[str, torch.Tensor] | None = None
) -> dict[str, torch.Tensor]:
    """Return the streams of a buffer that holds the expected chunk and nothing else.

    They are new tensors, or those of `into`, which are written only when all checks have passed.
    """
    window = _window(buffer)
    if into is not None:
        refuse_tensors(into, expected, filled=True)
    header.refuse_incomplete(window)
    stated = bytes(window[-CHECKSUM_BYTES:])
    if (actual := _checksum(window)) != stated:
        raise Corrupt(
            f"the checksum of this chunk is {actual.hex()}, it says {stated.hex()}: it was altered"
        )
    header.refuse_other(window, expected)
    streams = {}
    for place in header.places(expected):
        if place.length:
            stream = place.stream
            given = None if into is None else into[stream.name]
            content = np.frombuffer(window, np.uint8, count=place.length, offset=place.offset)
            streams[stream.name] = _filled(given, content, expected.shape(stream), stream.dtype)
    return streams


def refuse_tensors(
    tensors: Mapping[str, torch.Tensor], chunk: Chunk, *, filled: bool = False
) -> None:
    """BadInput where these are not the tensors that a chunk keeps, or cannot be `filled`."""
    names = {stream.name for stream in chunk.kept}
    if set(tensors) != names:
        raise BadInput(
            f"given are tensors {', '.join(sorted(tensors)) or 'none'}; "
            f"wanted {', '.join(sorted(names))}"
        )
    for stream in chunk.kept:
        tensor, shape = tensors[stream.name], chunk.shape(stream)
        if not isinstance(tensor, torch.Tensor):
            raise BadInput(f"{stream.name} is a {type(tensor).__name__}; wanted a torch.Tensor")
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype != stream.dtype or tuple(tensor.shape) != shape:
            raise BadInput(
                f"{stream.name} is {dtype} {list(tensor.shape)}; "
                f"wanted {stream.dtype} {list(shape)}"
            )
        if filled and (tensor.device.type != "cpu" or 0 in tensor.stride()):
            raise BadInput(
                f"{stream.name} is on {tensor.device} with strides {tensor.stride()}; "
                "wanted memory on the CPU in which every number has its own place"
            )


def _filled(
    given: torch.Tensor | None, content: np.ndarray, shape: tuple[int, ...], dtype: str
) -> torch.Tensor:
    """A tensor of these very bytes: `given`, or a new one."""
    if given is not None and given.is_contiguous():
        target = given
    else:
        target = torch.empty(shape, dtype=getattr(torch, dtype))
    np.copyto(target.detach().view(torch.uint8).view(-1).numpy(), content)
    if given is not None and given is not target:
        given.detach().copy_(target)
        return given
    return target


def _checksum(window: memoryview) -> bytes:
    """The checksum of all but the bytes that hold it."""
    return bytes.fromhex(checksum_of([window[:-CHECKSUM_BYTES]]).partition(":")[2])


def _window(buffer: Any) -> memoryview:
    """The bytes of a buffer."""
    if sys.byteorder != "little":
        raise CannotRunHere("chunks are little-endian; this machine is not, and nothing swaps them")
    try:
        return memoryview(buffer).cast("B")
    except TypeError as error:
        raise BadInput(f"{type(buffer).__name__} is no buffer in one piece: {error}") from error


def _writable(buffer: Any, size: int) -> memoryview:
    """The first bytes of a buffer, to be written."""
    window = _window(buffer)
    if window.readonly:
        raise BadInput(f"{type(buffer).__name__} is read-only; give a buffer that can be written")
    if len(window) < size:
        raise BadInput(f"the buffer has {len(window)} bytes; wanted {size} (encoded_bytes)")
    return window[:size]
