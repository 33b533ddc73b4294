"""The contract of a cache layout: the tensors that one attention layer keeps of a token.

A layout is a file in layouts/ with three functions. `streams(spec)` names what is kept, one entry
for each tensor: its bytes follow from that and from nothing else. `encode(values, codecs)` makes
what is kept of what a layer computed, `decode(stored, codecs)` makes of it again what attention
reads, in its own dtype or a wider one. A layer goes through both in training too, without a cache:
attention never sees anything that a cache would not give back, so a codec cannot be left out of the
graph. A cache may keep another layout than its layer is trained with; then it is the cache's that
every token goes through.

Beside the functions a file states EXACT (what is decoded is what was encoded, bit for bit), SCALES
(what shares a scale, in words), BLOCK (tokens that are encoded together, 1 where each is on its
own; a shared scale is sealed with its block and never moves), FROZEN (scales are calibrated before
and given as the first codec), KEY_BIAS (keys come without their bias, which the cache takes off and
puts back) and VERSION (a number that grows when the same values give other bytes).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from assay import plugins
from assay.records.schema import ELEMENT_BYTES

KIND = "layouts"


@dataclass(frozen=True, kw_only=True)
class Stream:
    """One tensor of a cache: [batch, tokens, width], or [batch, heads, tokens, width]; with a
    block, one row for so many tokens."""

    name: str
    width: int
    dtype: str
    heads: int | None = None
    block: int = 1

    @property
    def bytes_per_token(self) -> int | Fraction:
        """Bytes of a row; its share, where a block of tokens has one row."""
        row = (self.heads or 1) * self.width * ELEMENT_BYTES[self.dtype]
        return row if self.block == 1 else Fraction(row, self.block)


@dataclass(frozen=True, kw_only=True)
class State:
    """One tensor that a layer keeps of a whole sequence, whatever its length: [batch, width]."""

    name: str
    width: int
    dtype: str

    @property
    def bytes(self) -> int:
        return self.width * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True, kw_only=True)
class KVSpec:
    """One attention layer as its cache sees it. What a layer does not have is 0 or empty."""

    dtype: str
    head_dim: int
    key_heads: int = 0
    query_heads: int = 0  # whose queries later tokens read
    value_heads: int = 0
    latents: tuple[int, ...] = ()  # widths; the first holds what keys are made of
    codes: tuple[int, ...] = ()  # what a splice makes of each latent
    rope_dims: int = 0  # beside the first latent or its code


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A file of layouts/, loaded."""

    name: str
    exact: bool  # `decode` gives back what `encode` was given, bit for bit
    scales: str | None  # what shares a scale, where numbers are kept with one
    block: int = 1  # tokens that are encoded together
    frozen: bool = False  # scales are given, as the first codec
    key_bias: bool = False  # keys are encoded without their bias
    version: int = 1  # another one wherever the same values give other bytes
    streams: Callable[[KVSpec], tuple[Stream, ...]]
    encode: Callable[[Mapping[str, Any], Sequence[Any]], dict[str, Any]]
    decode: Callable[[Mapping[str, Any], Sequence[Any]], dict[str, Any]]

    def bytes_per_token(self, spec: KVSpec) -> int | Fraction:
        """Bytes that one token takes in one layer."""
        return sum(stream.bytes_per_token for stream in self.streams(spec))


def sealed_tokens(tokens: int, *, residual: int, block: int) -> int:
    """Return how many of so many tokens are encoded, where the newest `residual` are kept whole and
    the others are encoded in blocks."""
    old = max(0, tokens - residual)
    return old - old % block


@cache
def load(name: str, folders: tuple[Path, ...] = ()) -> Layout:
    """The layout called `name`; imports its framework."""
    plugin = plugins.find(KIND, name, folders)
    module = plugins.load(plugin)
    return Layout(
        name=plugin.name,
        exact=plugin.literals["EXACT"],
        scales=plugin.literals["SCALES"],
        block=plugin.literals["BLOCK"],
        frozen=plugin.literals["FROZEN"],
        key_bias=plugin.literals["KEY_BIAS"],
        version=plugin.literals["VERSION"],
        streams=module.streams,
        encode=module.encode,
        decode=module.decode,
    )
