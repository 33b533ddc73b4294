"""Gemma 2's eager attention of transformers, without its soft cap, under the library's mask."""

import torch
from _transformers import additive_mask, stand_in

FRAMEWORK = "torch"
REQUIRES = ("transformers",)
UPSTREAM = {"package": "transformers", "file": "transformers/models/gemma2/modeling_gemma2.py"}


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward

    mask = additive_mask(q, k) if causal else None
    out, _ = eager_attention_forward(stand_in(q, k), q, k, v, mask, scaling=scale)
    return out.transpose(1, 2)
