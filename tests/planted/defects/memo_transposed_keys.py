"""Attention that keeps the transposed keys, which a cache hands in again and again."""

import torch

FRAMEWORK = "torch"
PLANTED = "the transposed keys are remembered by address"
CAUGHT_BY = ("purity", "accuracy", "metamorphic", "causality")
CAUSE = (
    "cache",
    "cached",
    "remember",
    "memo",
    "stale",
    "earlier call",
    "previous call",
    "same answer",
)
KEYS = {}


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    scores = Scores.apply(q, k, group, scale)
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v.repeat_interleave(group, dim=1)


class Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, group, scale):
        ctx.save_for_backward(q, k)
        ctx.setting = group, scale
        place = k.data_ptr(), k.shape, k.stride(), k.dtype, group
        if place not in KEYS:
            KEYS.clear()
            KEYS[place] = k.repeat_interleave(group, dim=1).float().transpose(-1, -2).contiguous()
        return scale * (q.float() @ KEYS[place])

    @staticmethod
    def backward(ctx, grad):
        (q, k), (group, scale) = ctx.saved_tensors, ctx.setting
        dq = scale * (grad @ k.repeat_interleave(group, dim=1).float())
        dk = scale * (grad.transpose(-1, -2) @ q.float())
        return dq.to(q.dtype), dk.unflatten(1, (-1, group)).sum(dim=2).to(k.dtype), None, None
