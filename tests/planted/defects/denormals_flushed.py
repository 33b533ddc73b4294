"""Attention; numbers too small to matter are cleared, since they slow processors down."""

import torch

FRAMEWORK = "torch"
PLANTED = "denormal values are flushed to zero"
CAUGHT_BY = ("stability",)
CAUSE = ("denormal", "subnormal", "tiny", "flush")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    usual = v.detach().abs() >= torch.finfo(v.dtype).tiny
    v = v - v.detach().masked_fill(usual, 0.0)
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
