"""A latent from which keys and values are made, or one for each of the two.

Rotated key dimensions, where there are some, lie behind the first latent in the same tensor, so
that an absorbed decode reads one row for each token. Queries of heads, where later tokens read
them and no latent gives them, are kept whole.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from assay.kv.contract import KVSpec, Stream

NAMES = ("latent", "value_latent")


def streams(spec: KVSpec) -> tuple[Stream, ...]:
    return rows(spec, spec.latents)


def rows(spec: KVSpec, widths: Sequence[int]) -> tuple[Stream, ...]:
    """One row for each of `widths`, the rotated dimensions behind the first, and queries."""
    streams = []
    for name, width in zip(NAMES, widths, strict=False):
        beside = spec.rope_dims if name == NAMES[0] else 0
        streams.append(Stream(name=name, width=width + beside, dtype=spec.dtype))
    if spec.query_heads:
        streams.append(
            Stream(name="q", width=spec.head_dim, heads=spec.query_heads, dtype=spec.dtype)
        )
    return tuple(streams)


def encode(values: Mapping[str, Any], codecs: Sequence[Any] = ()) -> dict[str, Any]:
    """values: the latents by name, [B, T, width], "rope" [B, T, rope_dims] and "q" [B, H, T, D]
    where they are kept."""
    return with_rope(values)


def decode(stored: Mapping[str, Any], codecs: Sequence[Any] = ()) -> dict[str, Any]:
    """The first latent still has the rotated dimensions behind it."""
    return dict(stored)


def with_rope(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with "rope" put behind the first latent."""
    import torch

    kept = {name: value for name, value in values.items() if name != "rope"}
    if "rope" in values:
        kept[NAMES[0]] = torch.cat([kept[NAMES[0]], values["rope"]], dim=-1)
    return kept
