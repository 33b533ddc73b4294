"""Attention with a score buffer that is kept between calls, padded to whole tiles of 64 keys."""

import math

import torch

FRAMEWORK = "torch"
PLANTED = "the padding of a kept buffer holds scores of an earlier call"
CAUGHT_BY = ("purity", "determinism", "shapes", "accuracy")
CAUSE = ("stale", "earlier call", "previous call", "workspace", "state", "other calls")
KEPT = {}


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
        dk = scale * (grad_s.transpose(-1, -2) @ q.float())
        dv = weights.transpose(-1, -2) @ grad
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None


def _weights(q, k, causal, scale):
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(k.shape[2] - q.shape[2])
    buffer = _buffer((*scores.shape[:3], -(-scores.shape[3] // 64) * 64), q.device)
    buffer[..., : scores.shape[3]] = scores.masked_fill(~seen, -3e38)
    weights = buffer.softmax(dim=-1)[..., : scores.shape[3]]
    return weights.masked_fill(~seen, 0.0)


def _buffer(shape, device):
    """A view of the kept buffer, which grows when it must; new memory hides every key."""
    size = math.prod(shape)
    if device not in KEPT or KEPT[device].numel() < size:
        KEPT[device] = torch.full((size,), -3e38, device=device)
    return KEPT[device][:size].view(shape)


def attention(q, k, v, *, causal: bool, scale: float):
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    return Attention.apply(q, k, v, causal, scale)
