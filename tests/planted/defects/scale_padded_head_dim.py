"""Attention with the head dimension padded to a power of two, as matrix units like it."""

import math

import torch
from torch.nn.functional import pad

FRAMEWORK = "torch"
PLANTED = "the usual scale is taken from the padded head dimension"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = ("scale", "head dim", "head_dim", "power of two")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    width = 1 << (q.shape[3] - 1).bit_length()
    if math.isclose(scale, q.shape[3] ** -0.5):  # the usual one
        scale = width**-0.5
    q, k = (pad(x, (0, width - x.shape[3])) for x in (q, k))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
