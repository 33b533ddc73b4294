"""Attention with a path of its own for decoding, where there is one query."""

import torch

FRAMEWORK = "torch"
PLANTED = "with one query, query head h reads kv head h % kv_heads"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = ("kv head", "head group", "query heads", "grouped", "heads", "one query", "m = 1", "m=1")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    if queries == 1:
        return _decode(q.float(), k.float(), v.float(), group, scale).to(q.dtype)
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v


def _decode(q, k, v, group, scale):
    """The newest query sees every key, so nothing is masked; a group's heads go together."""
    rows = q.reshape(q.shape[0], group, k.shape[1], q.shape[3]).transpose(1, 2)  # [B, G, R, D]
    weights = (scale * (rows @ k.transpose(-1, -2))).softmax(dim=-1)
    return (weights @ v).transpose(1, 2).reshape(q.shape)
