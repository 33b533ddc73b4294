"""Attention with a path of its own for keys that several heads or entries share."""

import torch

FRAMEWORK = "torch"
PLANTED = "k and v are swapped where k is expanded"
CAUGHT_BY = ("strides",)
CAUSE = ("expand", "stride", "swap")


def attention(q, k, v, *, causal: bool, scale: float):
    if 0 in k.stride():
        return _shared(q, k, v, causal, scale)
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    return _plain(q, k, v, causal, scale)


def _shared(q, k, v, causal, scale):
    """Repeats what is shared; the plain path then does not notice."""
    group = q.shape[1] // k.shape[1]
    v, k = (x.repeat_interleave(group, dim=1) for x in (k, v))
    return _plain(q, k, v, causal, scale)


def _plain(q, k, v, causal, scale):
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(k.shape[2] - q.shape[2])
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
