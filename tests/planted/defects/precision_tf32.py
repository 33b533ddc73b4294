"""Attention with its products as tensor cores take them."""

import torch

FRAMEWORK = "torch"
PLANTED = "float32 inputs are rounded to 10 bits of mantissa, as TF32 does"
CAUGHT_BY = ("accuracy", "shapes", "gradients")
CAUSE = ("tf32", "10 bit", "10-bit", "precision", "accumulat", "rounding", "rounded")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    if q.dtype == torch.float32:
        q, k, v = (_tf32(x) for x in (q, k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v


def _tf32(x):
    """The nearest TF32 number; its gradient passes straight through."""
    bits = x.detach().contiguous().view(torch.int32)
    nearest = ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
    return x + (nearest - x.detach())
