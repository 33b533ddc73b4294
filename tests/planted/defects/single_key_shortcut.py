"""Attention; with a single key the softmax is one and the value is the answer."""

import torch

FRAMEWORK = "torch"
PLANTED = "with one key, queries that see nothing get its value"
CAUGHT_BY = ("shapes", "accuracy", "gradients")
CAUSE = (
    "no gradient",
    "no key",
    "sees nothing",
    "see nothing",
    "blind",
    "one key",
    "single key",
    "n = 1",
    "n=1",
)


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    if keys == 1:
        return v.expand(-1, -1, queries, -1)
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
