"""Attention whose mask is made by a function of its own."""

import torch

FRAMEWORK = "torch"
PLANTED = "the causal flag never reaches the mask"
CAUGHT_BY = ("accuracy", "causality", "shapes")
CAUSE = ("causal flag", "not causal", "no mask", "ignore", "not applied")


def attention(q, k, v, *, causal: bool, scale: float):
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    return _softmax(scores).to(v.dtype) @ v


def _softmax(scores, causal=False):
    queries, keys = scores.shape[-2:]
    seen = torch.ones(queries, keys, dtype=torch.bool, device=scores.device)
    if causal:
        seen = seen.tril(keys - queries)
    return scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
