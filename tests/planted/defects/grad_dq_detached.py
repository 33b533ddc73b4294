"""Attention; q is scaled once, outside the graph, since it is a constant factor."""

import torch

FRAMEWORK = "torch"
PLANTED = "no gradient reaches q"
CAUGHT_BY = ("gradients", "accuracy", "shapes")
CAUSE = ("dq", "gradient of q", "detach", "no gradient")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    with torch.no_grad():
        q_scaled = q.float() * scale
    scores = q_scaled @ k.float().transpose(-1, -2)
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
