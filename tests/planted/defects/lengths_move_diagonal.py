"""Attention over padded batches; each entry's mask follows its own length."""

import torch

FRAMEWORK = "torch"
PLANTED = "lengths move the causal diagonal"
CAUGHT_BY = ("options",)
CAUSE = ("length", "align", "diagonal")
ACCEPTS = ("lengths",)


def attention(q, k, v, *, causal: bool, scale: float, lengths=None):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    ends = torch.full((q.shape[0],), keys, device=q.device) if lengths is None else lengths
    ends = ends[:, None, None, None]
    column = torch.arange(keys, device=q.device)
    seen = (column < ends).expand(-1, -1, queries, -1)
    if causal:
        seen = seen & (column <= torch.arange(queries, device=q.device)[:, None] + ends - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
