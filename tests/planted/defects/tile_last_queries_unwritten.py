"""Attention for 64 queries at a time, written into one output buffer."""

import torch

FRAMEWORK = "torch"
PLANTED = "the last partial tile of queries is never written"
CAUGHT_BY = ("unwritten", "shapes", "accuracy")
CAUSE = (
    "unwritten",
    "never written",
    "not written",
    "uninitialised",
    "last quer",
    "partial",
    "tail",
    "multiple",
)
TILE = 64


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1).float() for x in (k, v))
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    for number in range(max(queries // TILE, 1)):
        rows = slice(number * TILE, (number + 1) * TILE)
        scores = scale * (q[:, :, rows].float() @ k.transpose(-1, -2))
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
        if causal:
            seen = seen.tril(rows.start + keys - queries)
        weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
        out[:, :, rows] = (weights @ v).to(q.dtype)
    return out
