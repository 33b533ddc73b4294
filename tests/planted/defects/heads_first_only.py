"""Attention for multi-head and multi-query models."""

import torch

FRAMEWORK = "torch"
PLANTED = "grouped heads all read kv head 0"
CAUGHT_BY = ("accuracy", "shapes", "metamorphic")
CAUSE = ("kv head", "head group", "query heads", "grouped", "heads")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    if group > 1:
        k, v = (x[:, :1].expand(-1, q.shape[1], -1, -1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
