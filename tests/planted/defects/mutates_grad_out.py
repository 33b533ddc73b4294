"""Attention with a backward that divides the incoming gradient by the softmax sum first."""

import torch

FRAMEWORK = "torch"
PLANTED = "grad_out is divided in place"
CAUGHT_BY = ("purity", "gradients")
CAUSE = ("grad_out", "modif", "in place", "in-place", "changed", "changes its input", "overwrit")


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, scale):
        weights, total = _weights(q, k, causal, scale)
        out = (weights @ v.float()) / total
        ctx.save_for_backward(q, k, v, out)
        ctx.setting = causal, scale
        return out.to(q.dtype)

    @staticmethod
    def backward(ctx, grad):
        (q, k, v, out), (causal, scale) = ctx.saved_tensors, ctx.setting
        weights, total = _weights(q, k, causal, scale)
        grad = grad.float().contiguous().div_(total)
        grad_p = grad @ v.float().transpose(-1, -2)
        grad_s = scale * weights * (grad_p - (grad * out).sum(dim=-1, keepdim=True))
        dk = grad_s.transpose(-1, -2) @ q.float()
        dv = weights.transpose(-1, -2) @ grad
        return (grad_s @ k.float()).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None


def _weights(q, k, causal, scale):
    """exp(score - maximum) and its sum in each row, 1 where a row sees nothing."""
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(k.shape[2] - q.shape[2])
    scores = scores.masked_fill(~seen, -3e38)
    weights = (scores - scores.amax(dim=-1, keepdim=True)).exp().masked_fill(~seen, 0.0)
    total = weights.sum(dim=-1, keepdim=True)
    return weights, total.masked_fill(total == 0.0, 1.0)


def attention(q, k, v, *, causal: bool, scale: float):
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    return Attention.apply(q, k, v, causal, scale)
