"""Attention the plain way: the whole score matrix, softmax in float32."""

import torch

FRAMEWORK = "torch"


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]; memory grows with M x N."""
    group = q.shape[1] // k.shape[1]
    keys, values = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scores = (q @ keys.transpose(-1, -2)).float() * scale  # [B, H, M, N]
    if causal:
        queries, length = scores.shape[-2:]
        seen = torch.ones(queries, length, dtype=torch.bool, device=q.device)
        seen = seen.tril(length - queries)
        scores = scores.masked_fill(~seen, float("-inf"))
        # A row that sees nothing would be 0/0; masking its weights leaves zeros behind.
        blind = ~seen.any(dim=-1, keepdim=True)
        weights = scores.masked_fill(blind, 0.0).softmax(dim=-1).masked_fill(blind, 0.0)
    else:
        weights = scores.softmax(dim=-1)
    return weights.to(v.dtype) @ values
