"""Einsum attention, 50 queries at a time, so that the score matrix stays small."""

import torch

FRAMEWORK = "torch"
CHUNK = 50


def attention(q, k, v, *, causal: bool, scale: float):
    queries, keys = q.shape[2], k.shape[2]
    k, v = k.float(), v.float()
    grouped = q.float().unflatten(1, (k.shape[1], -1))  # [B, G, R, M, D]
    parts = []
    for start in range(0, queries, CHUNK):
        rows = grouped[:, :, :, start : start + CHUNK]
        scores = torch.einsum("bgrmd,bgnd->bgrmn", rows, k) * scale
        if causal:
            last_seen = torch.arange(start, start + rows.shape[3], device=q.device)
            last_seen = last_seen[:, None] + keys - queries
            hidden = torch.arange(keys, device=q.device) > last_seen
            weights = scores.masked_fill(hidden, -3e38).softmax(dim=-1).masked_fill(hidden, 0.0)
        else:
            weights = scores.softmax(dim=-1)
        parts.append(torch.einsum("bgrmn,bgnd->bgrmd", weights, v))
    return torch.cat(parts, dim=3).flatten(1, 2).to(q.dtype)
