"""Long rows in splits of 256 keys, each a softmax of its own, combined at the end."""

import torch

FRAMEWORK = "torch"
PLANTED = "the outputs of the splits are averaged instead of weighted"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = ("256", "split", "merge", "long")
SPLIT = 256


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1).float() for x in (k, v))
    rows = q.float()
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    out, used = torch.zeros(q.shape, device=q.device), 0.0
    for start in range(0, keys, SPLIT):
        split = slice(start, start + SPLIT)
        scores = scale * (rows @ k[:, :, split].transpose(-1, -2))
        scores = scores.masked_fill(~seen[:, split], -3e38)
        out = out + scores.softmax(dim=-1).masked_fill(~seen[:, split], 0.0) @ v[:, :, split]
        used = used + seen[:, split].any(dim=-1, keepdim=True).float()
    return (out / used.clamp_min(1.0)).to(q.dtype)
