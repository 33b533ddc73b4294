"""Causal attention that computes only the queries that see a key."""

import torch

FRAMEWORK = "torch"
PLANTED = "rows that see no key are left as torch.empty had them"
CAUGHT_BY = ("unwritten", "shapes", "determinism")
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


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    first = max(queries - keys, 0) if causal else 0
    scores = scale * (q[:, :, first:].float() @ k.float().transpose(-1, -2))
    if causal:
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(keys - queries + first + 1)
        scores = scores.masked_fill(hidden, float("-inf"))
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    out[:, :, first:] = scores.softmax(dim=-1).to(v.dtype) @ v
    return out
