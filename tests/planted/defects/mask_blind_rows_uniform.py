"""Causal attention; the mask adds -1e6 to every hidden score."""

import torch

FRAMEWORK = "torch"
PLANTED = "a query that sees no key gets an average of all values instead of zero"
CAUGHT_BY = ("shapes", "causality", "gradients", "accuracy")
CAUSE = ("no key", "sees nothing", "see nothing", "blind", "fully masked")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = (scores + torch.where(seen, 0.0, -1e6)).softmax(dim=-1)
    return weights.to(v.dtype) @ v
