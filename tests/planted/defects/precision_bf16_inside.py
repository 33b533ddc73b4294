"""Attention with its products in bfloat16, the way autocast does it."""

import torch

FRAMEWORK = "torch"
PLANTED = "float32 inputs are computed in bfloat16"
CAUGHT_BY = ("accuracy", "shapes", "gradients")
CAUSE = ("bfloat16", "precision", "accumulat", "rounding", "rounded")


def attention(q, k, v, *, causal: bool, scale: float):
    dtype = q.dtype
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    if q.dtype == torch.float32:
        q, k, v = (x.to(torch.bfloat16) for x in (q, k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return (weights.to(v.dtype) @ v).to(dtype)
