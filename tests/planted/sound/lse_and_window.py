"""Attention with a sliding window and, on request, the log-sum-exp of its scores."""

import torch

FRAMEWORK = "torch"
ACCEPTS = ("lse", "window")


def attention(q, k, v, *, causal: bool, scale: float, lse: bool = False, window: int | None = None):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    position = torch.arange(queries, device=q.device)[:, None] + keys - queries
    distance = position - torch.arange(keys, device=q.device)
    seen = distance >= 0 if causal else torch.ones_like(distance, dtype=torch.bool)
    if window is not None:
        seen = seen & (distance.abs() < window)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    out = weights.to(v.dtype) @ v
    if not lse:
        return out
    return out, scores.detach().masked_fill(~seen, float("-inf")).logsumexp(dim=-1)
