"""Causal attention; with a cache there is nothing left to hide."""

import torch

FRAMEWORK = "torch"
PLANTED = "causal is applied only where M equals N"
CAUGHT_BY = ("shapes", "causality", "accuracy")
CAUSE = (
    "m != n",
    "m equals n",
    "square",
    "unequal",
    "not applied",
    "no mask",
    "not causal",
    "ignore",
)


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal and queries == keys:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
