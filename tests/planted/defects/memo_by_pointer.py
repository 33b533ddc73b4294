"""Attention that recognises tensors it has just seen by their address."""

import torch

FRAMEWORK = "torch"
PLANTED = "the result is remembered by address, and is stale after a change in place"
CAUGHT_BY = ("purity", "accuracy", "metamorphic")
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
        key = *(x.data_ptr() for x in (q, k, v)), q.shape, k.shape, q.dtype, causal, scale
        if key not in RESULTS:
            RESULTS.clear()
            RESULTS[key] = (_weights(q, k, causal, scale) @ _repeat(v, q)).to(q.dtype)
        out = RESULTS[key].clone()
        ctx.save_for_backward(q, k, v, out)
        ctx.setting = causal, scale
        return out

    @staticmethod
    def backward(ctx, grad):
        (q, k, v, out), (causal, scale) = ctx.saved_tensors, ctx.setting
        grad = grad.float()
        weights, group = _weights(q, k, causal, scale), q.shape[1] // k.shape[1]
        delta = (grad * out.float()).sum(dim=-1, keepdim=True)
        grad_s = weights * (grad @ _repeat(v, q).transpose(-1, -2) - delta)
        dq = scale * (grad_s @ _repeat(k, q))
        dk = scale * (grad_s.transpose(-1, -2) @ q.float())
        dv = weights.transpose(-1, -2) @ grad
        dk, dv = (x.unflatten(1, (-1, group)).sum(dim=2) for x in (dk, dv))
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None


def _repeat(x, q):
    """A kv head for each query head, in float32."""
    return x.repeat_interleave(q.shape[1] // x.shape[1], dim=1).float()


def _weights(q, k, causal, scale):
    scores = scale * (q.float() @ _repeat(k, q).transpose(-1, -2))
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(k.shape[2] - q.shape[2])
    return scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)


def attention(q, k, v, *, causal: bool, scale: float):
    return Attention.apply(q, k, v, causal, scale)
