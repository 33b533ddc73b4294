"""Online softmax over tiles of 4 keys; a tile is computed in float32 and nothing else is kept."""

import torch

FRAMEWORK = "torch"
PLANTED = "q is cast in each tile, so that autograd adds up dq in half precision"
CAUGHT_BY = ("gradients", "accuracy", "shapes", "stability")
CAUSE = ("precision", "accumulat", "rounding", "rounded", "half")
TILE = 4


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    last_seen = torch.arange(queries, device=q.device)[:, None]
    last_seen = last_seen + (keys - queries if causal else keys)
    highest = torch.full((*q.shape[:3], 1), -3e38, device=q.device)
    total, acc = torch.zeros_like(highest), torch.zeros(q.shape, device=q.device)
    for start in range(0, keys, TILE):
        tile = slice(start, min(start + TILE, keys))
        hidden = torch.arange(tile.start, tile.stop, device=q.device) > last_seen
        scores = scale * (q.float() @ k[:, :, tile].float().transpose(-1, -2))
        scores = scores.masked_fill(hidden, -3e38)
        new = torch.maximum(highest, scores.detach().amax(dim=-1, keepdim=True))
        weights = (scores - new).exp().masked_fill(hidden, 0.0)
        keep = (highest - new).exp()
        total = total * keep + weights.sum(dim=-1, keepdim=True)
        acc = acc * keep + weights @ v[:, :, tile].float()
        highest = new
    return (acc / total.masked_fill(total == 0.0, 1.0)).to(q.dtype)
