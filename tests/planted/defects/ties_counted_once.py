"""Softmax written out; the maximum itself adds exactly one to the sum."""

import torch

FRAMEWORK = "torch"
PLANTED = "scores equal to the maximum are counted once in the sum"
CAUGHT_BY = ("stability",)
CAUSE = ("tie", "equal")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    scores = scores.masked_fill(~seen, -3e38)
    shifted = scores - scores.amax(dim=-1, keepdim=True)
    weights = shifted.exp().masked_fill(~seen, 0.0)
    total = 1.0 + weights.masked_fill(shifted == 0.0, 0.0).sum(dim=-1, keepdim=True)
    weights = weights / total
    return weights.to(v.dtype) @ v
