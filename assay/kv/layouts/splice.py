"""Latents through a learned codec: for each token the codes, shorter than the latents.

A codec has `compress(latent)`, `expand(code)` and `code_width`. A code is written once and never
made again from what was read, so that entries do not drift.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from assay.kv.contract import KVSpec, Stream
from assay.kv.layouts.mla_latent import NAMES, rows, with_rope

EXACT = False


def streams(spec: KVSpec) -> tuple[Stream, ...]:
    return rows(spec, spec.codes)


def encode(values: Mapping[str, Any], codecs: Sequence[Any] = ()) -> dict[str, Any]:
    coded = dict(values)
    for name, codec in zip(NAMES, codecs, strict=False):
        coded[name] = codec.compress(values[name])
    return with_rope(coded)


def decode(stored: Mapping[str, Any], codecs: Sequence[Any] = ()) -> dict[str, Any]:
    """Latents [B, T, width] again; rotated dimensions stay behind the first."""
    import torch

    latents = dict(stored)
    for name, codec in zip(NAMES, codecs, strict=False):
        code, beside = stored[name].tensor_split((codec.code_width,), dim=-1)
        latent = codec.expand(code)
        latents[name] = torch.cat([latent, beside], dim=-1) if beside.shape[-1] else latent
    return latents
