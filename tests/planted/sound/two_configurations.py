"""Tiled attention in two named tile shapes, both right."""

import torch

FRAMEWORK = "torch"
CONFIGS = ("fwd_64_32", "fwd_32_64")


def attention(q, k, v, *, causal: bool, scale: float, config: str | None = None):
    row_tile, key_tile = (int(part) for part in (config or CONFIGS[0]).split("_")[1:])
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1).float() for x in (k, v))
    offset = k.shape[2] - q.shape[2] if causal else k.shape[2]
    tiles = [
        _rows(q[:, :, start : start + row_tile].float(), k, v, start + offset, key_tile, scale)
        for start in range(0, q.shape[2], row_tile)
    ]
    return torch.cat(tiles, dim=2).to(q.dtype)


def _rows(q, k, v, first_last_seen, key_tile, scale):
    """A tile of rows; its first row sees keys up to `first_last_seen`, the next one more."""
    last_seen = torch.arange(q.shape[2], device=q.device)[:, None] + first_last_seen
    highest = torch.full((*q.shape[:3], 1), -3e38, device=q.device)
    total, acc = torch.zeros_like(highest), torch.zeros_like(q)
    stop = min(k.shape[2], first_last_seen + q.shape[2])
    for start in range(0, stop, key_tile):
        tile = slice(start, min(start + key_tile, stop))
        hidden = torch.arange(tile.start, tile.stop, device=q.device) > last_seen
        scores = scale * (q @ k[:, :, tile].transpose(-1, -2))
        scores = scores.masked_fill(hidden, -3e38)
        new = torch.maximum(highest, scores.detach().amax(dim=-1, keepdim=True))
        weights = (scores - new).exp().masked_fill(hidden, 0.0)
        keep = (highest - new).exp()
        total = total * keep + weights.sum(dim=-1, keepdim=True)
        acc, highest = acc * keep + weights @ v[:, :, tile], new
    return acc / total.masked_fill(total == 0.0, 1.0)
