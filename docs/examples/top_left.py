"""Plain attention whose causal mask is aligned top-left: wrong where queries and keys differ."""

import torch

FRAMEWORK = "torch"


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float
) -> torch.Tensor:
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = q.float() @ k.float().mT * scale  # [batch, heads, queries, keys]
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return scores.softmax(-1).to(q.dtype) @ v
