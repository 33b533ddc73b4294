"""Causal attention on lengths padded to whole tiles of 64."""

import torch
from torch.nn.functional import pad

FRAMEWORK = "torch"
PLANTED = "the diagonal is placed by the padded lengths"
CAUGHT_BY = ("shapes", "causality", "accuracy")
CAUSE = ("multiple", "padded", "padding", "align")


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1).float() for x in (k, v))
    q_pad, k_pad = -queries % 64, -keys % 64
    rows = pad(q.float(), (0, 0, 0, q_pad))
    k, v = pad(k, (0, 0, 0, k_pad)), pad(v, (0, 0, 0, k_pad))
    scores = scale * (rows @ k.transpose(-1, -2))
    column = torch.arange(k.shape[2], device=q.device)
    seen = (column < keys).expand(rows.shape[2], -1)
    if causal:
        position = torch.arange(rows.shape[2], device=q.device) + k.shape[2] - rows.shape[2]
        seen = seen & (column <= position[:, None])
    weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
    return (weights @ v)[:, :, :queries].to(q.dtype)
