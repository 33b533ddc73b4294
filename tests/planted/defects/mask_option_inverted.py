"""Attention with a boolean mask, in the convention of torch's padding masks."""

import torch

FRAMEWORK = "torch"
PLANTED = "True in the mask hides a key instead of showing it"
CAUGHT_BY = ("options",)
CAUSE = ("invert", "mask", "opposite")
ACCEPTS = ("mask",)


def attention(q, k, v, *, causal: bool, scale: float, mask=None):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    if mask is not None:
        seen = seen & ~mask
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
