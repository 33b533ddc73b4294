"""Writes [batch, queries, heads, dim] and hands back a transposed view of it."""

import torch

FRAMEWORK = "torch"


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1).float() for x in (k, v))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    seen = seen.tril(keys - queries) if causal else seen
    scores = scale * torch.einsum("bhmd,bhnd->bhmn", q.float(), k)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    out = torch.einsum("bhmn,bhnd->bmhd", weights, v)
    return out.to(q.dtype).contiguous().transpose(1, 2)
