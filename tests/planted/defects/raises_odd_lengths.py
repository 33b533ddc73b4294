"""Attention that takes keys in pairs, even ones first."""

import torch

FRAMEWORK = "torch"
PLANTED = "an odd number of keys raises an IndexError"
CAUGHT_BY = ("shapes",)
CAUSE = ("indexerror", "raise", "odd", "out of bounds", "out of range")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    even = torch.arange(0, keys, 2, device=q.device)
    order = torch.cat((even, even + 1))
    k, v = k[:, :, order], v[:, :, order]
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)[:, order]
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
