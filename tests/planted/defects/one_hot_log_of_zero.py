"""Softmax in the log domain, where products become sums."""

import torch

FRAMEWORK = "torch"
PLANTED = "the log of a weight that underflowed makes the gradients NaN"
CAUGHT_BY = ("stability",)
CAUSE = ("nan", "log", "underflow", "one-hot")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    scores = scores.masked_fill(~seen, -3e38)
    weights = (scores - scores.detach().amax(dim=-1, keepdim=True)).exp().masked_fill(~seen, 0.0)
    total = weights.sum(dim=-1, keepdim=True)
    total = total.masked_fill(total == 0.0, 1.0)
    logs = weights.masked_fill(~seen, 1.0).log() - total.log()
    weights = logs.exp().masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
