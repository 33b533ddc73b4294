"""Attention with the softmax in float32."""

import torch

FRAMEWORK = "torch"
PLANTED = "products of q and k overflow in float16 before they are scaled"
CAUGHT_BY = ("stability",)
CAUSE = ("overflow", "float16", "inf")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q @ k.transpose(-1, -2)).float()
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
