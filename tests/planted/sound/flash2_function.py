"""FlashAttention-2 by hand: the backward recomputes P from the LSE, delta from the rounded output.

Formulas: Dao, FlashAttention-2 (arXiv 2307.08691), algorithms 1 and 2.
"""

import torch

FRAMEWORK = "torch"


class Flash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, scale):
        group = q.shape[1] // k.shape[1]
        scores, seen = _scores(q, k.repeat_interleave(group, dim=1), causal, scale)
        lse = scores.logsumexp(dim=-1, keepdim=True)
        weights = (scores - lse).exp().masked_fill(~seen, 0.0)
        out = (weights @ v.repeat_interleave(group, dim=1).float()).to(q.dtype)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.setting = causal, scale, group
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        causal, scale, group = ctx.setting
        keys, values = (x.repeat_interleave(group, dim=1).float() for x in (k, v))
        scores, seen = _scores(q, keys, causal, scale)
        weights = (scores - lse).exp().masked_fill(~seen, 0.0)
        delta = (grad.float() * out.float()).sum(dim=-1, keepdim=True)
        grad_s = weights * (grad.float() @ values.transpose(-1, -2) - delta) * scale
        grad_s, weights = grad_s.to(q.dtype).float(), weights.to(v.dtype).float()
        dk = (grad_s.transpose(-1, -2) @ q.float()).unflatten(1, (-1, group)).sum(dim=2)
        dv = (weights.transpose(-1, -2) @ grad.float()).unflatten(1, (-1, group)).sum(dim=2)
        return (grad_s @ keys).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None


def _scores(q, keys, causal, scale):
    """Scaled scores [B, H, M, N] and which of them count; those that do not are -3e38."""
    scores = scale * (q.float() @ keys.float().transpose(-1, -2))
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    seen = seen.tril(keys.shape[2] - q.shape[2]) if causal else seen
    return scores.masked_fill(~seen, -3e38), seen


def attention(q, k, v, *, causal: bool, scale: float):
    return Flash.apply(q, k, v, causal, scale)
