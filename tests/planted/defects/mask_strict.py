"""Causal attention where a query looks at the keys before it."""

import torch

FRAMEWORK = "torch"
PLANTED = "a query does not see its own position"
CAUGHT_BY = ("accuracy", "causality", "shapes")
CAUSE = ("own position", "own key", "off by one", "strict")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        position = torch.arange(queries, device=q.device)[:, None] + keys - queries
        seen = torch.arange(keys, device=q.device) < position
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
