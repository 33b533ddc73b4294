"""Any layout of keys and values, written out whole in the queries' dtype, then torch's attention.

What a cache without a kernel does at every step: it reads what is kept, writes it whole and reads
that. Here to compare with, and for layouts and machines that no kernel serves.
"""

from collections.abc import Mapping

import torch

from assay.attention.decode._whole_cache import attend
from assay.errors import BadInput

LAYOUT = "any"
DEQUANTISES = True
DETERMINISTIC = False  # as cuDNN, which torch may choose
_GROUP = 32


def decode(
    q: torch.Tensor,
    streams: Mapping[str, torch.Tensor],
    *,
    scale: float,
    lengths: torch.Tensor | None = None,
    pages: torch.Tensor | None = None,
) -> torch.Tensor:
    k, v = (whole(streams, name).to(q.dtype) for name in ("k", "v"))
    return attend(q, k, v, scale=scale, lengths=lengths, pages=pages)


def whole(streams: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    """Keys or values in float32, or as they are kept where they have no scale."""
    kept, scale = streams[name], streams.get(f"{name}_scale")
    if scale is None:
        return kept
    if scale.dtype != torch.bfloat16:
        raise BadInput(
            f"scales of {name} are {scale.dtype}; only layouts with bfloat16 scales are known here"
        )
    if kept.dtype == torch.uint8:  # two numbers of 4 bits, the first in the low half
        nibbles = torch.stack([kept & 15, kept >> 4], dim=-1).flatten(-2).to(torch.int8)
        kept = torch.where(nibbles > 7, nibbles - 16, nibbles)
    if scale.shape[-1] == 1:
        return kept.float() * scale.float()
    groups = kept.float().unflatten(-1, (-1, _GROUP))
    return (groups * scale.float()[..., None]).flatten(-2)
