"""Visibility masks of torch tensors and JAX arrays, from all the ways a workload can say them.

B batch, H query heads, M queries, N keys. A query's position is counted so that the last query
stands at the last key: the bottom-right alignment of `causal` and `window`. The reference has a
mask of its own (assay/workloads/visibility.py), so that a mistake in either shows.
"""

from collections.abc import Callable
from typing import Any


def visibility_mask(
    queries: int,
    keys: int,
    *,
    arange: Callable[[int], Any],
    causal: bool,
    window: int | None = None,
    lengths: Any = None,
    mask: Any = None,
    cu_seqlens: tuple[Any, Any] | None = None,
) -> Any:
    """True where a query may see a key, [B or 1, H or 1, M, N] of bool.

    `arange(n)` makes the indices, so it decides on library and device.
    """
    row, column = arange(queries), arange(keys)  # [M], [N]
    if cu_seqlens is None:
        distance = (row + (keys - queries))[:, None] - column  # [M, N]
        visible = within_reach(distance, causal=causal, window=window)
    else:
        cu_q, cu_k = cu_seqlens
        row_sequence, column_sequence = _sequence_of(row, cu_q), _sequence_of(column, cu_k)
        # Both counted from the end of their sequence, which aligns it bottom-right.
        from_end_q, from_end_k = row - cu_q[1:][row_sequence], column - cu_k[1:][column_sequence]
        distance = from_end_q[:, None] - from_end_k
        same_sequence = row_sequence[:, None] == column_sequence
        visible = same_sequence & within_reach(distance, causal=causal, window=window)
    visible = visible[None, None]
    if lengths is not None:
        visible = visible & (column < lengths[:, None])[:, None, None]
    return visible if mask is None else visible & mask


def within_reach(distance: Any, *, causal: bool, window: int | None) -> Any:
    """True where a query may see the key that stands `distance` positions before it."""
    if window is None:
        return distance >= 0 if causal else distance == distance
    near = abs(distance) < window
    return near & (distance >= 0) if causal else near


def _sequence_of(index: Any, cu_seqlens: Any) -> Any:
    """Number of the packed sequence that each token belongs to; empty sequences own none."""
    return (index[:, None] >= cu_seqlens[1:]).sum(-1)
