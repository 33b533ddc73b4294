"""Tiled causal attention in three tile shapes, chosen by name."""

import torch

FRAMEWORK = "torch"
PLANTED = "one configuration has fewer queries than keys in a tile and runs past the diagonal"
CAUGHT_BY = ("configs",)
CAUSE = ("fwd_32_64", "config")
CONFIGS = ("fwd_64_64", "fwd_32_64", "fwd_64_32")


def attention(q, k, v, *, causal: bool, scale: float, config: str | None = None):
    rows, keys = (int(part) for part in (config or CONFIGS[0]).split("_")[1:])
    group, offset = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    k, v = (x.repeat_interleave(group, dim=1).float() for x in (k, v))
    tiles = [
        _rows(q[:, :, s : s + rows].float(), k, v, s + offset, rows, keys, causal, scale)
        for s in range(0, q.shape[2], rows)
    ]
    return torch.cat(tiles, dim=2).to(q.dtype)


def _rows(q, k, v, first, rows, keys, causal, scale):
    """A tile of queries, of which the first sits at position `first` among the keys."""
    position = torch.arange(first, first + q.shape[2], device=q.device)[:, None]
    state = [torch.full((*q.shape[:3], 1), -3e38, device=q.device)]
    state += [torch.zeros_like(state[0]), torch.zeros_like(q)]
    # Whole tiles of keys that every query sees need no mask; those near the diagonal do.
    tile = min(rows, keys)
    below = max(first, 0) // tile * tile if causal else k.shape[2]
    for start in range(0, below, keys):
        index = torch.arange(start, min(start + keys, k.shape[2]), device=q.device)
        _add(state, q, k[:, :, index], v[:, :, index], index < 0, scale)
    for start in range(below, min(first + q.shape[2], k.shape[2]), keys):
        index = torch.arange(start, min(start + keys, k.shape[2]), device=q.device)
        _add(state, q, k[:, :, index], v[:, :, index], index > position, scale)
    return state[2] / state[1].masked_fill(state[1] == 0.0, 1.0)


def _add(state, q, k, v, hidden, scale):
    highest, total, acc = state
    scores = (scale * (q @ k.transpose(-1, -2))).masked_fill(hidden, -3e38)
    new = torch.maximum(highest, scores.detach().amax(dim=-1, keepdim=True))
    weights, keep = (scores - new).exp().masked_fill(hidden, 0.0), (highest - new).exp()
    state[:] = new, total * keep + weights.sum(dim=-1, keepdim=True), acc * keep + weights @ v
