"""Causal attention with an additive bias, as in models that pass their mask along."""

import torch

FRAMEWORK = "torch"
PLANTED = "-1e4 is added to hidden scores, which leaks where scores differ by more"
CAUGHT_BY = ("stability", "causality")
CAUSE = ("finite", "mask value", "bias", "added")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    bias = (~seen).float() * -10000.0
    blind = ~seen.any(dim=-1, keepdim=True)
    weights = (scores + bias).softmax(dim=-1).masked_fill(blind, 0.0)
    return weights.to(v.dtype) @ v
