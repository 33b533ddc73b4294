"""Attention with float32 inside, for any input."""

import torch

FRAMEWORK = "torch"
PLANTED = "half precision inputs give a float32 output"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = ("dtype", "float32")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights @ v.float()
