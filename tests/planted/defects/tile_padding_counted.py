"""Attention on keys padded to whole tiles of 64; zeros add nothing to the output."""

import torch
from torch.nn.functional import pad

FRAMEWORK = "torch"
PLANTED = "padding keys are counted in the softmax where nothing is causal"
CAUGHT_BY = ("shapes", "accuracy", "gradients")
CAUSE = ("padding", "padded", "partial", "tail", "multiple", "tile")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1).float() for x in (k, v))
    k, v = (pad(x, (0, 0, 0, -keys % 64)) for x in (k, v))
    scores = scale * (q.float() @ k.transpose(-1, -2))
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return (weights @ v).to(q.dtype)
