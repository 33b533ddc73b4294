"""Tiles of the score matrix: which of them hold a visible pair, and their scores.

Query heads that share a kv head are rows of one matrix, R * m rows for m queries: k and v are
never repeated. B batch, H query heads, G kv heads, R = H / G, M queries, N keys, D head dimension;
a tile has m queries and n keys.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from assay.attention.sequence._visibility import within_reach

QUERY_TILE = 128
KEY_TILE = 256


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """Masks of a call, and the factor of its scores."""

    causal: bool
    scale: float
    window: int | None = None
    lengths: torch.Tensor | None = None  # [B]


def by_kv_head(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q as [B, G, R, M, D] in its dtype; k and v as [B, G, N, D] in float32 at least."""
    q, k, v = (x if x.ndim == 4 else x[:, None] for x in (q, k, v))
    exact = torch.promote_types(q.dtype, torch.float32)
    return q.unflatten(1, (k.shape[1], -1)), k.to(exact), v.to(exact)


def query_tiles(
    *tensors: torch.Tensor, dtype: torch.dtype
) -> Iterator[tuple[slice, tuple[torch.Tensor, ...]]]:
    """Tiles along M of each [B, G, R, M, ...], as matrices [B, G, R * m, ...] of `dtype`."""
    length = tensors[0].shape[3]
    for start in range(0, length, QUERY_TILE):
        rows = slice(start, min(start + QUERY_TILE, length))
        yield rows, tuple(x[:, :, :, rows].to(dtype).flatten(2, 3) for x in tensors)


def key_tiles(
    queries: torch.Tensor, keys: torch.Tensor, rows: slice, length: int, options: ScoreOptions
) -> Iterator[tuple[slice, torch.Tensor]]:
    """The tiles of keys that some of `rows` may see, with scores [B, G, R * m, n].

    `length` is M; a hidden key's score is -inf. Tiles that no row sees are left out.
    """
    count, shift = keys.shape[2], keys.shape[2] - length
    low, high = rows.start + shift, rows.stop - 1 + shift  # positions of first and last row
    reach = length + count if options.window is None else options.window - 1
    begin = max(0, low - reach)
    end = min(count, high + 1 + (0 if options.causal else reach))
    for start in range(begin - begin % KEY_TILE, end, KEY_TILE):
        columns = slice(start, min(start + KEY_TILE, count))
        scores = (queries @ keys[:, :, columns].mT).mul_(options.scale)
        ahead, behind = columns.stop - 1 - low, high - columns.start  # the largest distances
        within = ahead <= (0 if options.causal else reach) and behind <= reach
        if not within or options.lengths is not None:
            hidden = _hidden(torch.arange(low, high + 1, device=keys.device), columns, options)
            per_head = scores.unflatten(2, (-1, high + 1 - low))  # [B, G, R, m, n]
            per_head.masked_fill_(hidden, float("-inf"))
        yield columns, scores


def _hidden(position: torch.Tensor, columns: slice, options: ScoreOptions) -> torch.Tensor:
    """True where a key may not be seen, [m, n] or with `lengths` [B, 1, 1, m, n]."""
    key = torch.arange(columns.start, columns.stop, device=position.device)  # [n]
    distance = position[:, None] - key  # [m, n]
    hidden = ~within_reach(distance, causal=options.causal, window=options.window)
    if options.lengths is not None:
        hidden = hidden | (key >= options.lengths[:, None])[:, None, None, None]
    return hidden
