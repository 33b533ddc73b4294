"""Which keys each query may see, as a boolean tensor, from all the ways a workload can say it.

B batch, H query heads, M queries, N keys. A query's position is counted so that the last query
stands at the last key: the bottom-right alignment of `causal` and `window`.
"""

import torch


def visible(
    queries: int,
    keys: int,
    *,
    device: torch.device,
    causal: bool,
    lengths: torch.Tensor | None = None,
    window: int | None = None,
    mask: torch.Tensor | None = None,
    cu_seqlens: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """True where a query may see a key, [B or 1, H or 1, M, N]."""
    if cu_seqlens is None:
        position = torch.arange(keys - queries, keys, device=device)
        key = torch.arange(keys, device=device)
        seen = torch.ones(queries, keys, dtype=torch.bool, device=device)
    else:
        position, key, seen = _packed(queries, keys, *cu_seqlens)
    distance = position[:, None] - key
    if causal:
        seen &= distance >= 0
    if window is not None:
        seen &= distance.abs() < window
    seen = seen[None, None]
    if lengths is not None:
        within = torch.arange(keys, device=device) < lengths[:, None]
        seen = seen & within[:, None, None]
    return seen if mask is None else seen & mask


def _packed(
    queries: int, keys: int, cu_q: torch.Tensor, cu_k: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Positions [M] and [N] counted within each sequence, and who shares a sequence, [M, N]."""
    row, column = (torch.arange(n, device=cu_q.device) for n in (queries, keys))
    row_sequence = torch.searchsorted(cu_q[1:], row, right=True)
    column_sequence = torch.searchsorted(cu_k[1:], column, right=True)
    shift = cu_k.diff() - cu_q.diff()  # each sequence's own N - M
    position = row - cu_q[row_sequence] + shift[row_sequence]
    key = column - cu_k[column_sequence]
    return position, key, row_sequence[:, None] == column_sequence
