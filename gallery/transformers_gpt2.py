"""GPT-2's eager attention of transformers, with the mask that the library makes for it."""

import torch
from _transformers import additive_mask, stand_in

FRAMEWORK = "torch"
REQUIRES = ("transformers",)
UPSTREAM = {"package": "transformers", "file": "transformers/models/gpt2/modeling_gpt2.py"}
LIMITS = {"groups": [1]}  # GPT-2 has one number of heads


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q, k and v [B, H, M or N, D] -> [B, H, M, D]."""
    from transformers.models.gpt2.modeling_gpt2 import eager_attention_forward

    mask = additive_mask(q, k) if causal else None
    out, _ = eager_attention_forward(stand_in(q, k), q, k, v, mask, scaling=scale)
    return out.transpose(1, 2)
