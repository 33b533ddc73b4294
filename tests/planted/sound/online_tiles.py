"""Online softmax over tiles of 64 keys; autograd differentiates the loop."""

import torch

FRAMEWORK = "torch"
TILE = 64


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1).float() for x in (k, v))
    rows = q.float()  # once, so that autograd adds up dq in float32
    last_seen = torch.arange(queries, device=q.device)[:, None]
    last_seen = last_seen + (keys - queries if causal else keys)
    highest = torch.full((*q.shape[:3], 1), -3e38, device=q.device)
    total, acc = torch.zeros_like(highest), torch.zeros(q.shape, device=q.device)
    for start in range(0, keys, TILE):
        tile = slice(start, min(start + TILE, keys))
        hidden = torch.arange(tile.start, tile.stop, device=q.device) > last_seen
        scores = scale * (rows @ k[:, :, tile].transpose(-1, -2))
        scores = scores.masked_fill(hidden, -3e38)
        # Softmax does not depend on the shift, so no gradient needs to flow through the maximum.
        new = torch.maximum(highest, scores.detach().amax(dim=-1, keepdim=True))
        weights = (scores - new).exp().masked_fill(hidden, 0.0)
        keep = (highest - new).exp()
        total = total * keep + weights.sum(dim=-1, keepdim=True)
        acc = acc * keep + weights.to(q.dtype).float() @ v[:, :, tile]
        highest = new
    return (acc / total.masked_fill(total == 0.0, 1.0)).to(q.dtype)
