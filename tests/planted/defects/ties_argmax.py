"""Attention; where scores are huge the softmax is one-hot and the best key is simply taken."""

import torch

FRAMEWORK = "torch"
PLANTED = "only the first of several equal best keys is attended"
CAUGHT_BY = ("stability",)
CAUSE = ("tie", "equal", "argmax", "one-hot")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    # A row whose weights are all 0 or close to its highest weight has found its key.
    peak = weights.detach().amax(dim=-1, keepdim=True)
    found = ((weights == 0.0) | (weights > 0.99 * peak)).all(dim=-1, keepdim=True) & (peak > 0.0)
    best = torch.zeros_like(weights).scatter(-1, weights.argmax(dim=-1, keepdim=True), 1.0)
    weights = torch.where(found, best, weights)
    return weights.to(v.dtype) @ v
