"""Scores added up over the head dimension, 16 elements at a time."""

import torch

FRAMEWORK = "torch"
PLANTED = "a head dimension that is no multiple of 16 loses its last elements in the scores"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = ("head dim", "head_dim", "dimension")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = torch.zeros(*q.shape[:3], keys, device=q.device)
    for chunk in range(q.shape[3] // 16):
        part = slice(16 * chunk, 16 * chunk + 16)
        scores = scores + scale * (q[..., part].float() @ k[..., part].float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
