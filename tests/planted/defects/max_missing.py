"""Attention with the softmax written out."""

import torch

FRAMEWORK = "torch"
PLANTED = "the maximum is not subtracted before exp"
CAUGHT_BY = ("stability",)
CAUSE = ("max", "overflow")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.exp().masked_fill(~seen, 0.0)
    total = weights.sum(dim=-1, keepdim=True)
    blind = ~seen.any(dim=-1, keepdim=True)
    weights = weights / total.masked_fill(blind, 1.0)
    return weights.to(v.dtype) @ v
