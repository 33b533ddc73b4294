"""Softmax with powers of two; log2(e) goes into the scale."""

import torch

FRAMEWORK = "torch"
PLANTED = "log2(e) is written with too few digits"
CAUGHT_BY = ("accuracy", "shapes", "stability")
CAUSE = ("scale", "log2", "precision", "accumulat", "rounding", "rounded")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    scores = scores.masked_fill(~seen, -3e38)
    shifted = scores - scores.detach().amax(dim=-1, keepdim=True)
    weights = torch.exp2(1.443 * shifted).masked_fill(~seen, 0.0)
    total = weights.sum(dim=-1, keepdim=True)
    weights = weights / total.masked_fill(total == 0.0, 1.0)
    return weights.to(v.dtype) @ v
