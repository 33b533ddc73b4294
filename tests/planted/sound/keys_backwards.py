"""Online softmax that takes the keys from the last to the first, 32 at a time."""

import torch

FRAMEWORK = "torch"
LOWEST = -3.0e38


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1).float() for x in (k, v))
    rows = q.float()  # once, so that autograd adds up dq in float32
    last_seen = torch.arange(queries, device=q.device) + (keys - queries if causal else keys)
    highest = torch.full((*q.shape[:3], 1), LOWEST, device=q.device)
    total, acc = torch.zeros_like(highest), torch.zeros(q.shape, device=q.device)
    for stop in range(keys, 0, -32):
        index = torch.arange(max(stop - 32, 0), stop, device=q.device)
        hidden = index > last_seen[:, None]
        scores = scale * (rows @ k[:, :, index].transpose(-1, -2))
        scores = scores.masked_fill(hidden, LOWEST)
        new = torch.maximum(highest, scores.detach().amax(dim=-1, keepdim=True))
        weights = (scores - new).exp().masked_fill(hidden, 0.0)
        keep = (highest - new).exp()
        total = total * keep + weights.sum(dim=-1, keepdim=True)
        acc = acc * keep + weights @ v[:, :, index]
        highest = new
    return (acc / total.masked_fill(total == 0.0, 1.0)).to(q.dtype)
