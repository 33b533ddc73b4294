"""Attention; the scores are shifted by their maximum, so that exp cannot overflow."""

import torch

FRAMEWORK = "torch"
PLANTED = "the maximum is taken over the batch, so that a row depends on other entries"
CAUGHT_BY = ("batch", "stability", "metamorphic")
CAUSE = ("max", "underflow", "batch", "other")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    scores = scores.masked_fill(~seen, -3e38)
    weights = (scores - scores.detach().amax(dim=(0, 1, 3), keepdim=True)).exp()
    total = weights.masked_fill(~seen, 0.0).sum(dim=-1, keepdim=True)
    blind = ~seen.any(dim=-1, keepdim=True)
    weights = weights.masked_fill(~seen, 0.0) / total.masked_fill(blind, 1.0)
    return weights.to(v.dtype) @ v
