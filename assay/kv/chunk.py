"""A chunk: a run of tokens of one layer, which streams are kept of it, and what it belongs to.

A writer says with it what its tensors are, a reader what it expects: both must agree in every
field, or the bytes mean something else.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from assay.errors import BadInput
from assay.kv.contract import KVSpec, Layout, Stream
from assay.records.schema import ELEMENT_BYTES

# Room for texts in a serialized chunk, in UTF-8; longer identities are given as digests.
TEXT_BYTES = {"layout": 32, "scales": 64, "model": 96, "rope": 96}
NAME_BYTES = 32  # of a stream
_SMALL, _LARGE = 2**32 - 1, 2**48
_VALUES = ("v", "value_latent")
_SCALE = "_scale"


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Contents of a layer's cache: tokens `first_token` to `first_token + tokens` of sequences.

    `model` and `rope` are texts of the caller's that differ wherever what is kept would:
    a name with its revision, `identity` of a configuration. Codecs, frozen scales and a key's bias
    are the model's. Streams that are `left_out` are kept elsewhere.
    """

    layout: Layout
    spec: KVSpec
    model: str
    rope: str
    layer: int
    first_token: int
    tokens: int
    sequences: int = 1
    left_out: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name, value in self.texts.items():
            _refuse_text(value, name, TEXT_BYTES[name], empty=name == "scales")
        _refuse_number(self.layout.version, "the version of the layout", 0, _SMALL)
        _refuse_number(self.layer, "layer", 0, _SMALL)
        _refuse_number(self.first_token, "first_token", 0, _LARGE)
        _refuse_number(self.tokens, "tokens", 1, _LARGE)
        _refuse_number(self.sequences, "sequences", 1, _SMALL)
        for stream in self.streams:
            self._refuse_stream(stream)
        names = [stream.name for stream in self.streams]
        if unknown := sorted(self.left_out - set(names)):
            raise BadInput(f"left out are {', '.join(unknown)}, which layout {self.layout.name} "
                           f"does not keep; it keeps {', '.join(names)}")  # fmt: skip
        if not self.kept:
            raise BadInput(f"layout {self.layout.name} keeps nothing here that is not left out")
        _refuse_number(self.payload_bytes, "bytes of all streams", 1, _LARGE)

    def _refuse_stream(self, stream: Stream) -> None:
        _refuse_text(stream.name, "the name of a stream", NAME_BYTES)
        _refuse_number(stream.width, f"the width of {stream.name}", 1, _SMALL)
        if stream.dtype not in ELEMENT_BYTES:
            raise BadInput(
                f"stream {stream.name} is kept in {stream.dtype}; "
                f"wanted one of {', '.join(ELEMENT_BYTES)}"
            )
        if self.tokens % stream.block or self.first_token % stream.block:
            raise BadInput(
                f"{self.tokens} tokens from {self.first_token} on are no whole blocks of "
                f"{stream.block}, which share a row of {stream.name}"
            )

    @property
    def texts(self) -> dict[str, str]:
        """Return what is written as text, by field."""
        return {
            "layout": self.layout.name,
            "scales": self.layout.scales or "",
            "model": self.model,
            "rope": self.rope,
        }

    @cached_property
    def streams(self) -> tuple[Stream, ...]:
        """Return the layout's streams: keys, values, then the scales of both."""
        return tuple(sorted(self.layout.streams(self.spec), key=lambda s: s.name.endswith(_SCALE)))

    @cached_property
    def kept(self) -> tuple[Stream, ...]:
        """Return the streams that are not left out."""
        return tuple(stream for stream in self.streams if stream.name not in self.left_out)

    def shape(self, stream: Stream) -> tuple[int, ...]:
        """Return [sequences, rows, width], or [sequences, heads, rows, width]: a row for each
        token, or for each block of them."""
        heads = () if stream.heads is None else (stream.heads,)
        return (self.sequences, *heads, self.tokens // stream.block, stream.width)

    def stream_bytes(self, stream: Stream) -> int:
        """Bytes of one stream."""
        return prod(self.shape(stream)) * ELEMENT_BYTES[stream.dtype]

    @property
    def payload_bytes(self) -> int:
        """Bytes of all streams that are kept: what a cache counts for these tokens."""
        return sum(self.stream_bytes(stream) for stream in self.kept)

    def split(self) -> tuple["Chunk", "Chunk"]:
        """Return this chunk without its values and without all else, each with its scales."""
        values = {s.name for s in self.kept if s.name.split(_SCALE)[0] in _VALUES}
        rest = {s.name for s in self.kept} - values
        if not values or not rest:
            raise BadInput(
                f"layout {self.layout.name} keeps {', '.join(s.name for s in self.kept)} here: "
                "there are no values apart from keys; keep the chunk in one place"
            )
        return (
            replace(self, left_out=self.left_out | values),
            replace(self, left_out=self.left_out | rest),
        )


def identity(facts: Mapping[str, Any]) -> str:
    """Return a digest of a configuration, such as all that a model's rope depends on."""
    try:
        text = json.dumps(facts, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{facts!r} cannot be written as JSON ({error}); give plain data") from error
    return "blake2b:" + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _refuse_text(value: object, name: str, most: int, *, empty: bool = False) -> None:
    if not isinstance(value, str) or "\0" in value or not (value or empty):
        raise BadInput(f"{name} is {value!r}; wanted a text without NUL")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise BadInput(f"{name} is {value!r}, which UTF-8 cannot hold") from error
    if size > most:
        raise BadInput(f"{name} is {size} bytes long, {value[:40]!r}...; wanted at most {most}: "
                       "give a digest")  # fmt: skip


def _refuse_number(value: object, name: str, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadInput(f"{name} is {value!r}; wanted a whole number from {least} to {most}")
