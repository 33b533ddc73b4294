"""Attention with exp by a cubic polynomial, to spare the special function units."""

import math

import torch

FRAMEWORK = "torch"
PLANTED = "exp is a polynomial of too low a degree for float32"
CAUGHT_BY = ("accuracy", "shapes", "gradients")
CAUSE = ("exp", "precision", "accumulat", "rounding", "rounded")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    scores = scores.masked_fill(~seen, -3e38)
    weights = _exp2((scores - scores.detach().amax(dim=-1, keepdim=True)) * math.log2(math.e))
    weights = weights.masked_fill(~seen, 0.0)
    total = weights.sum(dim=-1, keepdim=True)
    weights = weights / total.masked_fill(total == 0.0, 1.0)
    return weights.to(v.dtype) @ v


def _exp2(x):
    """2**x: a power of two from the integer part, a cubic in the rest."""
    x = x.clamp_min(-150.0)
    whole = x.floor()
    rest = x - whole
    cubic = 1.0 + rest * (0.6957 + rest * (0.2262 + rest * 0.0781))
    return cubic * torch.exp2(whole)
