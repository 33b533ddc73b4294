"""torch's scaled_dot_product_attention, with the kernel that torch itself picks."""

import torch

from assay.attention.sequence._sdpa import attend

FRAMEWORK = "torch"
DETERMINISTIC_BACKWARD = False  # whatever is picked: on a GPU mostly cuDNN or flash, with atomics


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    return attend(q, k, v, causal=causal, scale=scale)
