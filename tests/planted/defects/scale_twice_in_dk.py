"""Attention with a hand-written backward that keeps the scaled q."""

import torch

FRAMEWORK = "torch"
PLANTED = "dk is scaled twice: the saved q was scaled already"
CAUGHT_BY = ("gradients", "accuracy", "shapes")
CAUSE = "scale"


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, scale):
        weights = _weights(q, k, causal, scale)
        out = (weights @ v.float()).to(q.dtype)
        ctx.save_for_backward(q.float() * scale, k, v, out)
        ctx.setting = causal, scale
        return out

    @staticmethod
    def backward(ctx, grad):
        (q, k, v, out), (causal, scale) = ctx.saved_tensors, ctx.setting
        grad = grad.float()
        weights = _weights(q, k, causal, 1.0)
        delta = (grad * out.float()).sum(dim=-1, keepdim=True)
        grad_s = weights * (grad @ v.float().transpose(-1, -2) - delta)
        dq = scale * (grad_s @ k.float())
        dk = scale * (grad_s.transpose(-1, -2) @ q.float())
        dv = weights.transpose(-1, -2) @ grad
        return dq.to(k.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None


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
