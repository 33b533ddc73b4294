"""Grouped-query attention: the heads of a group are packed, padded to a power of two."""

import torch
from torch.nn.functional import pad

FRAMEWORK = "torch"
PLANTED = "with 3 query heads to a kv head, a padding head is taken for a real one"
CAUGHT_BY = ("shapes", "accuracy", "metamorphic")
CAUSE = ("kv head", "head group", "query heads", "grouped", "heads", "ratio 3", "power of two")


def attention(q, k, v, *, causal: bool, scale: float):
    heads, (queries, keys) = q.shape[1], (q.shape[2], k.shape[2])
    group = heads // k.shape[1]
    packed = q.unflatten(1, (k.shape[1], group)).float()  # [B, G, R, M, D]
    packed = pad(packed, (0, 0, 0, 0, 0, (1 << (group - 1).bit_length()) - group))
    scores = scale * (packed @ k.float().transpose(-1, -2)[:, :, None])
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return (weights @ v.float()[:, :, None]).flatten(1, 2)[:, :heads].to(q.dtype)
