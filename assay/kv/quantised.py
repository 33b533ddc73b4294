"""Layouts that keep keys, values or both in a format of fewer bits, and the rest as it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.kv.contract import KVSpec, Stream
from assay.kv.formats import Format


@dataclass(frozen=True, kw_only=True)
class Quantised:
    """The functions of a layout; None keeps what it is given, in the dtype of the layer. Queries
    that later tokens read are always kept whole."""

    keys: Format | None = None
    values: Format | None = None

    def streams(self, spec: KVSpec) -> tuple[Stream, ...]:
        """Return the streams of keys, queries and values, each before its scales."""
        heads = {"k": spec.key_heads, "q": spec.query_heads, "v": spec.value_heads}
        streams = []
        for name, count in heads.items():
            if count and (own := self._formats.get(name)):
                for suffix, part in own.parts(spec.head_dim).items():
                    stream = Stream(
                        name=name + suffix,
                        width=part.width,
                        heads=count,
                        dtype=part.dtype,
                        block=part.block,
                    )
                    streams.append(stream)
            elif count:
                streams.append(
                    Stream(name=name, width=spec.head_dim, heads=count, dtype=spec.dtype)
                )
        return tuple(streams)

    def encode(self, values: Mapping[str, Any], codecs: Sequence[Any] = ()) -> dict[str, Any]:
        """Return what is kept of k, q and v, [B, H, T, D]."""
        kept, formats = {}, self._given(codecs)
        for name, value in values.items():
            own = formats.get(name)
            parts = own.encode(value) if own else {"": value}
            kept |= {name + suffix: tensor for suffix, tensor in parts.items()}
        return kept

    def decode(self, stored: Mapping[str, Any], codecs: Sequence[Any] = ()) -> dict[str, Any]:
        """Return k, q and v, [B, H, S, D]: in float32 what has a format."""
        values, formats = {}, self._given(codecs)
        for name in ("k", "q", "v"):
            if name in stored:
                own = formats.get(name)
                parts = {n.removeprefix(name): t for n, t in stored.items() if n.startswith(name)}
                values[name] = own.decode(parts) if own else stored[name]
        return values

    def _given(self, codecs: Sequence[Any]) -> dict[str, Format]:
        """The formats, with scales of the layer's where it gives some (kv/calibration.py)."""
        formats = self._formats
        return {n: codecs[0].formats.get(n, f) for n, f in formats.items()} if codecs else formats

    @property
    def _formats(self) -> dict[str, Format]:
        return {n: f for n, f in (("k", self.keys), ("v", self.values)) if f}
