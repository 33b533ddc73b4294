"""Attention that also returns the log of its softmax sum."""

import torch

FRAMEWORK = "torch"
PLANTED = "the LSE lacks the maximum that was subtracted"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = ("max", "largest score")
ACCEPTS = ("lse",)


def attention(q, k, v, *, causal: bool, scale: float, lse: bool = False):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    out = weights.to(v.dtype) @ v
    if not lse:
        return out
    hidden = scores.detach().masked_fill(~seen, float("-inf"))
    highest = hidden.amax(dim=-1, keepdim=True).clamp_min(-3e38)
    return out, (hidden - highest).exp().sum(dim=-1).log()
