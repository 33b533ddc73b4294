"""Attention that adds the values of two keys at a time to its output, in place."""

import torch

FRAMEWORK = "torch"
PLANTED = "the output is accumulated in half precision"
CAUGHT_BY = ("accuracy", "shapes", "stability")
CAUSE = ("precision", "accumulat", "rounding", "rounded", "half")


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, scale):
        weights, out = _weights(q, k, causal, scale), torch.zeros_like(q)
        for start in range(0, k.shape[2], 2):
            pair = slice(start, start + 2)
            out += (weights[..., pair] @ v[:, :, pair].float()).to(q.dtype)
        ctx.save_for_backward(q, k, v)
        ctx.setting = causal, scale
        return out

    @staticmethod
    def backward(ctx, grad):
        (q, k, v), (causal, scale) = ctx.saved_tensors, ctx.setting
        weights, grad = _weights(q, k, causal, scale), grad.float()
        grad_p = grad @ v.float().transpose(-1, -2)
        grad_s = scale * weights * (grad_p - (weights * grad_p).sum(dim=-1, keepdim=True))
        dk = grad_s.transpose(-1, -2) @ q.float()
        dv = weights.transpose(-1, -2) @ grad
        return (grad_s @ k.float()).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None


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
