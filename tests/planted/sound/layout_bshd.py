"""Plain attention in the layout of its projections, [batch, seq, heads, dim]."""

import torch

FRAMEWORK = "torch"
LAYOUT = "BSHD"


def attention(q, k, v, *, causal: bool, scale: float):
    queries, heads, keys = q.shape[1], q.shape[2], k.shape[1]
    k, v = (x.repeat_interleave(heads // x.shape[2], dim=2) for x in (k, v))
    scores = scale * torch.einsum("bmhd,bnhd->bhmn", q.float(), k.float())
    if causal:
        hidden = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
        hidden = hidden.triu(keys - queries + 1)
        weights = scores.masked_fill(hidden, -3e38).softmax(dim=-1).masked_fill(hidden, 0.0)
    else:
        weights = scores.softmax(dim=-1)
    return torch.einsum("bhmn,bnhd->bmhd", weights.to(v.dtype).float(), v.float()).to(q.dtype)
