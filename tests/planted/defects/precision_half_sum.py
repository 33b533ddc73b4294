"""Attention in the dtype of its inputs; the softmax sum goes through a row key by key."""

import torch

FRAMEWORK = "torch"
PLANTED = "the softmax sum is accumulated in half precision"
CAUGHT_BY = ("accuracy", "shapes", "stability")
CAUSE = ("precision", "accumulat", "rounding", "rounded", "half", "sum")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    scores = scores.masked_fill(~seen, -3e38)
    weights = (scores - scores.detach().amax(dim=-1, keepdim=True)).exp().masked_fill(~seen, 0.0)
    total = torch.zeros_like(q[..., 0])
    for weight in weights.to(q.dtype).unbind(dim=-1):
        total = total + weight
    total = total.masked_fill(total == 0.0, 1.0).float()
    return ((weights @ v.float()) / total[..., None]).to(q.dtype)
