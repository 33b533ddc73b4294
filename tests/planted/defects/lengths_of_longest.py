"""Attention over padded batches, cut to the length that the batch needs."""

import torch

FRAMEWORK = "torch"
PLANTED = "keys are hidden beyond the longest entry of the batch instead of each entry's own end"
CAUGHT_BY = ("options",)
CAUSE = ("length", "batch")
ACCEPTS = ("lengths",)


def attention(q, k, v, *, causal: bool, scale: float, lengths=None):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    if lengths is not None:
        seen = seen & (torch.arange(keys, device=q.device) < lengths.max())
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
