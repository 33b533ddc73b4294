"""Attention that also returns its log-sum-exp, computed with powers of two like the softmax."""

import math

import torch

FRAMEWORK = "torch"
PLANTED = "the LSE is in units of log2"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = ("log2", "base 2", "natural", "ln 2", "ln(2)", "0.693", "1.44")
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
    hidden = scores.detach().masked_fill(~seen, float("-inf")) * math.log2(math.e)
    highest = hidden.amax(dim=-1).clamp_min(-3e38)
    return out, highest + torch.exp2(hidden - highest[..., None]).sum(dim=-1).log2()
