"""Tiled causal attention that stops at the last key a tile of queries can see."""

import torch

FRAMEWORK = "torch"
PLANTED = "the loop over the keys ends as if there were no more keys than queries"
CAUGHT_BY = ("shapes", "causality", "accuracy")
CAUSE = ("sq < sk", "fewer queries", "m < n", "top-left", "align", "more keys than queries")
TILE = 64


def attention(q, k, v, *, causal: bool, scale: float):
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = (x.repeat_interleave(group, dim=1).float() for x in (k, v))
    tiles = []
    for start in range(0, queries, TILE):
        rows = q[:, :, start : start + TILE].float()
        reach = min(start + TILE, keys) if causal else keys
        scores = scale * (rows @ k[:, :, :reach].transpose(-1, -2))
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
        if causal:
            seen = seen.tril(start + keys - queries)
        weights = scores.masked_fill(~seen, -3e38).softmax(dim=-1).masked_fill(~seen, 0.0)
        tiles.append(weights @ v[:, :, :reach])
    return torch.cat(tiles, dim=2).to(q.dtype)
