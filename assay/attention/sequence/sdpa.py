"""torch's scaled_dot_product_attention, with the kernel that torch itself picks."""

import torch
from torch.nn.functional import scaled_dot_product_attention

FRAMEWORK = "torch"


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]."""
    queries, keys = q.shape[2], k.shape[2]
    grouped = q.shape[1] != k.shape[1]
    if not causal or queries == keys:
        return scaled_dot_product_attention(
            q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped
        )
    if queries > keys:  # the first queries see nothing; the others are a square
        blind, seeing = q.split((queries - keys, keys), dim=2)
        out = attention(seeing, k, v, causal=True, scale=scale)
        return torch.cat((torch.zeros_like(blind), out), dim=2)
    # is_causal is aligned top-left in torch; with fewer queries than keys the mask is said.
    # Imported here because it loads torch's compiler, a second that other workloads do not owe.
    from torch.nn.attention.bias import causal_lower_right

    bias = causal_lower_right(queries, keys)
    return scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale, enable_gqa=grouped)
