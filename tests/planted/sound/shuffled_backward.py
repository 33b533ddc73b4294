"""Query tiles add to dk and dv in the order they finish, and the file says that bits may vary."""

import random

import torch

FRAMEWORK = "torch"
DETERMINISTIC_BACKWARD = False


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, scale):
        weights = _weights(q, k, causal, scale)
        ctx.save_for_backward(q, k, v)
        ctx.setting = causal, scale
        return (weights @ v.float()).to(q.dtype)

    @staticmethod
    def backward(ctx, grad):
        (q, k, v), (causal, scale) = ctx.saved_tensors, ctx.setting
        weights = _weights(q, k, causal, scale)
        grad_p = grad.float() @ v.float().transpose(-1, -2)
        grad_s = scale * weights * (grad_p - (weights * grad_p).sum(dim=-1, keepdim=True))
        dk, dv = torch.zeros_like(k, dtype=torch.float32), torch.zeros_like(v, dtype=torch.float32)
        starts = list(range(0, q.shape[2], 16))
        random.Random().shuffle(starts)
        for start in starts:
            rows = slice(start, start + 16)
            dk += grad_s[:, :, rows].transpose(-1, -2) @ q[:, :, rows].float()
            dv += weights[:, :, rows].transpose(-1, -2) @ grad[:, :, rows].float()
        return (grad_s @ k.float()).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None


def _weights(q, k, causal, scale):
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    seen = seen.tril(k.shape[2] - q.shape[2]) if causal else seen
    return scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)


def attention(q, k, v, *, causal: bool, scale: float):
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    return Attention.apply(q, k, v, causal, scale)
