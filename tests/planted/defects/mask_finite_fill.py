"""Causal attention; hidden scores are filled with a number low enough for float16."""

import torch

FRAMEWORK = "torch"
PLANTED = "hidden scores are filled with -1e4, which visible scores can fall below"
CAUGHT_BY = ("stability", "causality", "metamorphic")
CAUSE = ("finite", "mask value", "fill")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    blind = ~seen.any(dim=-1, keepdim=True)
    weights = scores.masked_fill(~seen, -1e4).softmax(dim=-1).masked_fill(blind, 0.0)
    return weights.to(v.dtype) @ v
