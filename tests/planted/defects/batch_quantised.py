"""Attention on keys rounded to 16 bits, with one step size for the tensor."""

import torch

FRAMEWORK = "torch"
PLANTED = "the step size of the keys depends on all batch entries"
CAUGHT_BY = ("batch", "accuracy", "shapes", "stability")
CAUSE = ("batch", "precision", "rounded", "rounding", "other")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    step = k.detach().float().abs().amax().clamp_min(1e-30) / 32767
    rounded = (k.detach().float() / step).round() * step
    k = k.float() + (rounded - k.detach().float())  # the gradient passes straight through
    scores = scale * (q.float() @ k.transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
