"""Plain attention: scores and softmax in float32, probabilities rounded to the dtype of v."""

import torch

FRAMEWORK = "torch"


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = scale * (q.float() @ k.float().transpose(-1, -2))
    if not causal:
        return scores.softmax(dim=-1).to(v.dtype) @ v
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
    lowest = torch.finfo(scores.dtype).min
    # A row that sees nothing becomes uniform, and is then emptied; so is its gradient.
    weights = scores.masked_fill(~seen, lowest).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights.to(v.dtype) @ v
