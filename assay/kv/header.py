"""Header of a serialized chunk: its fields, where the streams lie, and what a reader refuses.

All numbers are little-endian. A reader makes the header that it expects and compares: no offset,
shape, dtype or name in a buffer is ever acted on, so a buffer can lead nowhere but to a refusal.
"""

import struct
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any

from assay.errors import BadInput
from assay.kv.chunk import NAME_BYTES, TEXT_BYTES, Chunk
from assay.kv.contract import Stream

MAGIC = b"assayKV\0"
VERSION = 1
CHECKSUM_BYTES = 8  # the last of a buffer; over all before them
ALIGNMENT = 64  # of every stream, from the start of the buffer
# Numbers of dtypes on the wire: their places here. They stay; new ones are added at the end.
DTYPES = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint8",
)  # fmt: skip

_FIXED = {  # the first fields and their forms
    "magic": "8s",
    "format version": "I",
    "streams": "I",
    "header bytes": "Q",
    "bytes": "Q",
    "layer": "I",
    "layout version": "I",
    "first token": "Q",
    "tokens": "Q",
    "sequences": "I",
    "exact": "H",
    "key bias": "H",
    **{name: f"{size}s" for name, size in TEXT_BYTES.items()},
}
_ENTRY = {  # of each stream of the layout, behind them; heads is 0 where a stream has none
    "name": f"{NAME_BYTES}s",
    "kept": "I",
    "dtype": "I",
    "heads": "Q",
    "width": "Q",
    "block": "Q",
    "offset": "Q",
    "length": "Q",
}
_CONSEQUENCES = {"header bytes", "bytes", "offset", "length"}
_CAUSES = (_FIXED.keys() | _ENTRY.keys()) - _CONSEQUENCES
_FIXED_FORM = struct.Struct("<" + "".join(_FIXED.values()))
_ENTRY_FORM = struct.Struct("<" + "".join(_ENTRY.values()))


class Corrupt(BadInput):
    """Bytes that are no whole chunk: cut short, altered, or something else altogether."""


class Mismatch(BadInput):
    """A whole chunk of something else than the reader expects."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a stream lies in a buffer; it is 0 bytes long where it is left out."""

    stream: Stream
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


def places(chunk: Chunk) -> list[Place]:
    """Return the place of every stream of the layout, in their order."""
    placed, end = [], header_bytes(chunk)
    for stream in chunk.streams:
        length = 0 if stream.name in chunk.left_out else chunk.stream_bytes(stream)
        offset = -(-end // ALIGNMENT) * ALIGNMENT if length else end
        placed.append(Place(stream=stream, offset=offset, length=length))
        end = placed[-1].end
    return placed


def gaps(chunk: Chunk) -> Iterator[tuple[int, int]]:
    """Yield start and end of what lies between streams, which is zeros."""
    end = header_bytes(chunk)
    for place in places(chunk):
        yield end, place.offset
        end = place.end


def header_bytes(chunk: Chunk) -> int:
    """Return the bytes before the first stream and its alignment."""
    return _FIXED_FORM.size + len(chunk.streams) * _ENTRY_FORM.size


def encoded_bytes(chunk: Chunk) -> int:
    """Return the bytes of a chunk's serialized form, header and checksum included."""
    return places(chunk)[-1].end + CHECKSUM_BYTES


def packed(chunk: Chunk) -> bytes:
    """Return the header of a chunk."""
    entries = [_ENTRY_FORM.pack(*_entry(place).values()) for place in places(chunk)]
    return _FIXED_FORM.pack(*_fixed(chunk).values()) + b"".join(entries)


def refuse_incomplete(window: memoryview) -> None:
    """Corrupt for what is no chunk of this version, cut short, or followed by other bytes."""
    size, least = len(window), _FIXED_FORM.size + CHECKSUM_BYTES
    if size < least:
        raise Corrupt(f"{size} bytes are no chunk, which has at least {least}: it was cut short")
    stated = dict(zip(_FIXED, _FIXED_FORM.unpack_from(window), strict=True))
    if stated["magic"] != MAGIC:
        raise Corrupt(f"this is no chunk: it begins with {stated['magic']!r}, wanted {MAGIC!r}")
    if stated["format version"] != VERSION:
        raise Corrupt(
            f"this chunk is of format version {stated['format version']}; only {VERSION} can be "
            "read: read it with the assay that wrote it"
        )
    if stated["bytes"] != size:
        kind = "cut short" if size < stated["bytes"] else "followed by other bytes"
        raise Corrupt(f"this chunk is {kind}: {size} bytes, its header says {stated['bytes']}")


def refuse_other(window: memoryview, expected: Chunk) -> None:
    """Mismatch where a header is not the expected one; Corrupt for numbers between streams.

    `window` is as long as its header says. Sizes and offsets follow from what a chunk is, so they
    are compared last: a refusal names the cause.
    """
    stated = _FIXED_FORM.unpack_from(window)
    compared = [("this chunk", dict(zip(_FIXED, stated, strict=True)), _fixed(expected))]
    if header_bytes(expected) <= len(window):
        for number, place in enumerate(places(expected)):
            stated = _ENTRY_FORM.unpack_from(window, _FIXED_FORM.size + number * _ENTRY_FORM.size)
            entry = dict(zip(_ENTRY, stated, strict=True))
            compared.append((f"stream {place.stream.name} of this chunk", entry, _entry(place)))
    for names in (_CAUSES, _CONSEQUENCES):
        for place, fields, wanted in compared:
            _refuse_fields(names, fields, wanted, place)
    for start, end in gaps(expected):
        if any(window[start:end]):
            raise Corrupt(f"bytes {start} to {end} of this chunk, between streams, are not zeros")


def _fixed(chunk: Chunk) -> dict[str, Any]:
    return {
        "magic": MAGIC,
        "format version": VERSION,
        "streams": len(chunk.streams),
        "header bytes": header_bytes(chunk),
        "bytes": encoded_bytes(chunk),
        "layer": chunk.layer,
        "layout version": chunk.layout.version,
        "first token": chunk.first_token,
        "tokens": chunk.tokens,
        "sequences": chunk.sequences,
        "exact": int(chunk.layout.exact),
        "key bias": int(chunk.layout.key_bias),
        **{name: _padded(text, TEXT_BYTES[name]) for name, text in chunk.texts.items()},
    }


def _entry(place: Place) -> dict[str, Any]:
    stream = place.stream
    return {
        "name": _padded(stream.name, NAME_BYTES),
        "kept": int(place.length > 0),
        "dtype": DTYPES.index(stream.dtype),
        "heads": stream.heads or 0,
        "width": stream.width,
        "block": stream.block,
        "offset": place.offset,
        "length": place.length,
    }


def _padded(text: str, size: int) -> bytes:
    return text.encode().ljust(size, b"\0")


def _refuse_fields(
    names: Set[str], fields: dict[str, Any], wanted: dict[str, Any], place: str
) -> None:
    for name in fields:
        if name in names and fields[name] != wanted[name]:
            raise Mismatch(
                f"{place} has {name} {_readable(name, fields[name])}; "
                f"wanted {_readable(name, wanted[name])}"
            )


def _readable(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value.rstrip(b"\0").decode(errors="replace"))
    if name == "dtype" and value < len(DTYPES):
        return DTYPES[value]
    return str(value)
