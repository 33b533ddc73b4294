"""Attention that recognises a repeated call by a short fingerprint of its inputs."""

import torch

FRAMEWORK = "torch"
PLANTED = "the result of an earlier call is returned where the first elements are equal"
CAUGHT_BY = ("purity", "causality", "metamorphic", "batch")
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
RESULTS = {}


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, scale):
        key = *(x[0, 0, 0, 0].item() for x in (q, k, v)), q.shape, k.shape, q.dtype, causal, scale
        if key not in RESULTS:
            RESULTS.clear()
            RESULTS[key] = (_weights(q, k, causal, scale) @ v.float()).to(q.dtype)
        out = RESULTS[key].clone()
        ctx.save_for_backward(q, k, v, out)
        ctx.setting = causal, scale
        return out

    @staticmethod
    def backward(ctx, grad):
        (q, k, v, out), (causal, scale) = ctx.saved_tensors, ctx.setting
        grad = grad.float()
        weights = _weights(q, k, causal, scale)
        delta = (grad * out.float()).sum(dim=-1, keepdim=True)
        grad_s = weights * (grad @ v.float().transpose(-1, -2) - delta)
        dq = scale * (grad_s @ k.float())
        dk = scale * (grad_s.transpose(-1, -2) @ q.float())
        dv = weights.transpose(-1, -2) @ grad
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None


def _weights(q, k, causal, scale):
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(k.shape[2] - q.shape[2])
    return scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)


def attention(q, k, v, *, causal: bool, scale: float):
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    return Attention.apply(q, k, v, causal, scale)
