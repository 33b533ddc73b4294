"""Plain attention that keeps its masks between calls; they depend on shapes alone."""

from functools import lru_cache

import torch

FRAMEWORK = "torch"


@lru_cache(maxsize=64)
def _hidden(queries: int, keys: int, device: torch.device) -> torch.Tensor:
    with torch.no_grad():
        ones = torch.ones(queries, keys, dtype=torch.bool, device=device)
        return ones.triu(keys - queries + 1)


def attention(q, k, v, *, causal: bool, scale: float):
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    if causal:
        hidden = _hidden(q.shape[2], k.shape[2], q.device)
        weights = scores.masked_fill(hidden, -1e38).softmax(dim=-1).masked_fill(hidden, 0.0)
    else:
        weights = scores.softmax(dim=-1)
    return weights.to(v.dtype) @ v
