"""Attention whose backward adds tiles of queries to dk and dv as they finish."""

import random

import torch

FRAMEWORK = "torch"
PLANTED = "dk and dv are added up in a random order, and the file does not say so"
CAUGHT_BY = ("determinism",)
CAUSE = ("repeat", "bit", "determin", "random", "order", "differ")


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, scale):
        weights = _weights(q, k, causal, scale)
        out = (weights @ v.float()).to(q.dtype)
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
        tiles = [slice(start, start + 16) for start in range(0, q.shape[2], 16)]
        random.shuffle(tiles)
        dk = sum(grad_s[:, :, t].transpose(-1, -2) @ q[:, :, t].float() for t in tiles) * scale
        dv = sum(weights[:, :, t].transpose(-1, -2) @ grad[:, :, t] for t in tiles)
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
