"""Attention for 16 queries at a time, from the last to the first, clearing values on the way."""

import torch

FRAMEWORK = "torch"
PLANTED = "values that no remaining query sees are zeroed in v itself"
CAUGHT_BY = ("purity", "gradients", "determinism", "accuracy")
CAUSE = ("modif", "in place", "in-place", "changed", "changes its input", "overwrit")


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, scale):
        ctx.save_for_backward(q, k, v)
        ctx.setting = causal, scale
        out, offset = torch.empty_like(q), k.shape[2] - q.shape[2]
        values, weights = v.float().contiguous(), _weights(q, k, causal, scale)
        for start in reversed(range(0, q.shape[2], 16)):
            rows = slice(start, start + 16)
            if causal:  # what is not visible from here on is not needed any more
                values[:, :, max(start + 16 + offset, 0) :] = 0.0
            out[:, :, rows] = (weights[:, :, rows] @ values).to(q.dtype)
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
    if group > 1:
        k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    return Attention.apply(q, k, v, causal, scale)
