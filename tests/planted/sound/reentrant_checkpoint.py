"""Plain attention whose weights are computed again in the backward, by a reentrant checkpoint."""

import torch
from torch.utils.checkpoint import checkpoint

FRAMEWORK = "torch"


def attention(q, k, v, *, causal: bool, scale: float):
    return checkpoint(plain, q, k, v, causal, scale, use_reentrant=True)


def plain(q, k, v, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    seen = seen.tril(keys - queries) if causal else seen
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
