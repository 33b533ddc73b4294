"""Attention computed for [batch, queries, heads, dim] and brought into the wanted shape."""

import torch

FRAMEWORK = "torch"
PLANTED = "the output is reshaped where it should be transposed"
CAUGHT_BY = ("accuracy", "shapes", "batch", "causality")
CAUSE = ("layout", "transpose", "reshape", "order", "permut")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    out = torch.einsum("bhmn,bhnd->bmhd", weights.to(v.dtype), v)
    return out.reshape(q.shape)
