"""Attention whose backward computes dq only for the queries that see a key."""

import torch

FRAMEWORK = "torch"
PLANTED = "dq of rows that see no key is left as torch.empty had it"
CAUGHT_BY = ("unwritten", "gradients", "shapes")
CAUSE = (
    "unwritten",
    "never written",
    "not written",
    "uninitialised",
    "no key",
    "sees nothing",
    "see nothing",
    "blind",
)


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
        dq = torch.empty(q.shape, device=q.device)
        first = max(q.shape[2] - k.shape[2], 0) if causal else 0
        dq[:, :, first:] = scale * (grad_s[:, :, first:] @ k.float())
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
