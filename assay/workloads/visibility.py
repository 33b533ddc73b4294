"""Keys that each query may see, as one boolean array: the meaning of every mask in one place.

M queries, N keys. Query i of M stands at position i + N - M among the keys (bottom-right), so with
`causal` it sees keys up to there; with a window, keys closer than that many places.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def visibility_mask(
    queries: int,
    keys: int,
    *,
    causal: bool,
    window: int = 0,
    rows: "np.ndarray | None" = None,
    columns: "np.ndarray | None" = None,
) -> "np.ndarray":  # [M, N] of bool
    """Causal and windowed visibility of one sequence; of some queries and keys where they are
    given."""
    import numpy as np

    rows = np.arange(queries) if rows is None else rows
    columns = np.arange(keys) if columns is None else columns
    ahead = columns - (rows[:, None] + keys - queries)
    visible = np.ones(ahead.shape, dtype=bool)
    if causal:
        visible &= ahead <= 0
    if window:
        visible &= np.abs(ahead) < window
    return visible


def packed_visibility_mask(
    starts_q: "np.ndarray", starts_k: "np.ndarray", *, causal: bool, window: int = 0
) -> "np.ndarray":  # [M, N] of bool
    """Sequences packed one after another, given where each begins and the last ends: each sees
    only itself."""
    import numpy as np

    visible = np.zeros((int(starts_q[-1]), int(starts_k[-1])), dtype=bool)
    bounds = zip(starts_q[:-1], starts_q[1:], starts_k[:-1], starts_k[1:], strict=True)
    for first_q, last_q, first_k, last_k in bounds:
        own = visibility_mask(last_q - first_q, last_k - first_k, causal=causal, window=window)
        visible[first_q:last_q, first_k:last_k] = own
    return visible
