"""Attention that also returns its log-sum-exp, never infinite so that merges are safe."""

import torch

FRAMEWORK = "torch"
PLANTED = "the LSE of a query that sees no key is a finite number"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = ("no key", "sees nothing", "see nothing", "blind", "-inf", "finite")
ACCEPTS = ("lse",)


def attention(q, k, v, *, causal: bool, scale: float, lse: bool = False):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    out = weights.to(v.dtype) @ v
    if not lse:
        return out
    return out, scores.detach().masked_fill(~seen, -3e38).logsumexp(dim=-1)
