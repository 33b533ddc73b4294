"""Attention; one maximum for the whole score matrix saves a reduction."""

import torch

FRAMEWORK = "torch"
PLANTED = "the maximum is taken over all rows of a head, so that other rows underflow to 0/0"
CAUGHT_BY = ("stability", "metamorphic")
CAUSE = ("max", "underflow", "other rows")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    highest = scores.detach().amax(dim=(-2, -1), keepdim=True)
    weights = (scores - highest).exp().masked_fill(~seen, 0.0)
    total = weights.sum(dim=-1, keepdim=True)
    blind = ~seen.any(dim=-1, keepdim=True)
    weights = weights / total.masked_fill(blind, 1.0)
    return weights.to(v.dtype) @ v
