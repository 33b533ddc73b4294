"""Attention with a sliding window around each query's index."""

import torch

FRAMEWORK = "torch"
PLANTED = "the window is aligned top-left"
CAUGHT_BY = ("options",)
CAUSE = ("window", "top-left", "align")
ACCEPTS = ("window",)


def attention(q, k, v, *, causal: bool, scale: float, window: int | None = None):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    if window is not None:
        position = torch.arange(queries, device=q.device)[:, None]
        distance = position - torch.arange(keys, device=q.device)
        seen = seen & (distance.abs() < window)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
