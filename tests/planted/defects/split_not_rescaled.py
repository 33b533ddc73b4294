"""Long rows in splits of 512 keys, whose numerators and denominators are added up."""

import torch

FRAMEWORK = "torch"
PLANTED = "above 512 keys the splits are added without being brought to one maximum"
CAUGHT_BY = ("shapes", "accuracy")
CAUSE = ("512", "split", "merge", "long", "rescal")
SPLIT = 512


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1).float() for x in (k, v))
    rows = q.float()
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    acc = total = 0.0
    for start in range(0, keys, SPLIT):
        split = slice(start, start + SPLIT)
        scores = scale * (rows @ k[:, :, split].transpose(-1, -2))
        scores = scores.masked_fill(~seen[:, split], -3e38)
        weights = (scores - scores.detach().amax(dim=-1, keepdim=True)).exp()
        weights = weights.masked_fill(~seen[:, split], 0.0)
        acc = acc + weights @ v[:, :, split]
        total = total + weights.sum(dim=-1, keepdim=True)
    return (acc / total.masked_fill(total == 0.0, 1.0)).to(q.dtype)
