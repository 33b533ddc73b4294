"""GPT-2's eager attention of transformers, with the mask that the library makes for it."""

import torch
from _transformers import eager_attention

FRAMEWORK = "torch"
REQUIRES = ("transformers",)
UPSTREAM = {"package": "transformers", "file": "transformers/models/gpt2/modeling_gpt2.py"}
LIMITS = {"groups": [1]}  # GPT-2 has one number of heads


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M or N, D] -> [B, H, M, D]."""
    from transformers.models.gpt2 import modeling_gpt2

    return eager_attention(modeling_gpt2, q, k, v, causal=causal, scale=scale)
