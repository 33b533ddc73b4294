"""Attention for inference: no graph is recorded, and the file says that there is no backward."""

import torch

FRAMEWORK = "torch"
BACKWARD = False


@torch.no_grad()
def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = (q.float() @ k.float().transpose(-1, -2)).mul_(scale)
    hidden = torch.zeros(queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        hidden = ~hidden
        hidden = hidden.triu(keys - queries + 1)
    scores.masked_fill_(hidden, -3e38)
    weights = scores.sub_(scores.amax(dim=-1, keepdim=True)).exp_().masked_fill_(hidden, 0.0)
    total = weights.sum(dim=-1, keepdim=True)
    weights.div_(total.masked_fill_(total == 0.0, 1.0))
    return weights.to(v.dtype) @ v
