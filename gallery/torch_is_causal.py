"""torch's scaled_dot_product_attention with is_causal=True, and the kernel that torch picks."""

import torch

FRAMEWORK = "torch"
UPSTREAM = {"package": "torch", "file": "torch/nn/functional.py"}


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=causal, scale=scale, enable_gqa=True
    )
