"""Everything in float64 inside, rounded once at the end."""

import torch

FRAMEWORK = "torch"


def attention(q, k, v, *, causal: bool, scale: float):
    batch, heads, queries, dim = q.shape
    kv_heads, keys = k.shape[1:3]
    grouped = q.double().reshape(batch, kv_heads, heads // kv_heads, queries, dim)
    scores = scale * torch.einsum("bgrmd,bgnd->bgrmn", grouped, k.double())
    if causal:
        last_seen = torch.arange(queries, device=q.device) + keys - queries
        hidden = torch.arange(keys, device=q.device) > last_seen[:, None]
        scores = scores.masked_fill(hidden, -1e300)
        weights = scores.softmax(dim=-1).masked_fill(hidden, 0.0)
    else:
        weights = scores.softmax(dim=-1)
    out = torch.einsum("bgrmn,bgnd->bgrmd", weights, v.double())
    return out.reshape(batch, heads, queries, dim).to(q.dtype)
