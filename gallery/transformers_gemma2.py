"""Gemma 2's eager attention of transformers, without its soft cap, under the library's mask."""

import torch
from _transformers import eager_attention

FRAMEWORK = "torch"
REQUIRES = ("transformers",)
UPSTREAM = {"package": "transformers", "file": "transformers/models/gemma2/modeling_gemma2.py"}


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    from transformers.models.gemma2 import modeling_gemma2

    return eager_attention(modeling_gemma2, q, k, v, causal=causal, scale=scale)
