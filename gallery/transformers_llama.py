"""Llama's eager attention of transformers, with the mask that the library makes for it."""

import torch
from _transformers import eager_attention

FRAMEWORK = "torch"
REQUIRES = ("transformers",)
UPSTREAM = {"package": "transformers", "file": "transformers/models/llama/modeling_llama.py"}


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    from transformers.models.llama import modeling_llama

    return eager_attention(modeling_llama, q, k, v, causal=causal, scale=scale)
