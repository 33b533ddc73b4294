"""Which keys each query may see, as one boolean array: every way of saying it, brought together."""

import jax
import jax.numpy as jnp


def visible(
    queries: int,
    keys: int,
    *,
    causal: bool,
    window: int | None = None,
    lengths: jax.Array | None = None,
    mask: jax.Array | None = None,
    cu_seqlens: tuple[jax.Array, jax.Array] | None = None,
) -> jax.Array | None:
    """[B or 1, H or 1, M, N], True where a query may look; None when every query sees every key.

    A query's position is its row counted from the end of its keys (bottom-right), within its own
    sequence where `cu_seqlens` packs several.
    """
    rows, columns = jnp.arange(queries)[:, None], jnp.arange(keys)[None, :]
    allowed = [] if mask is None else [mask]
    if lengths is not None:
        allowed.append(columns < lengths[:, None, None, None])
    if cu_seqlens is None:
        position, column = rows + (keys - queries), columns
    else:
        starts_q, starts_k = cu_seqlens
        sequence_q, sequence_k = _sequence(starts_q, queries), _sequence(starts_k, keys)
        allowed.append(sequence_q[:, None] == sequence_k[None, :])
        # Both counted from the end of the sequence: what is aligned bottom-right.
        position = rows - starts_q[1:][sequence_q][:, None]
        column = columns - starts_k[1:][sequence_k][None, :]
    if causal:
        allowed.append(column <= position)
    if window is not None:
        allowed.append(jnp.abs(position - column) < window)
    seen = None
    for condition in allowed:
        seen = condition if seen is None else seen & condition
    return None if seen is None else seen.reshape((1,) * (4 - seen.ndim) + seen.shape)


def _sequence(starts: jax.Array, length: int) -> jax.Array:
    """The number of the sequence each packed token belongs to; empty sequences own none."""
    return jnp.searchsorted(starts[1:], jnp.arange(length), side="right")
