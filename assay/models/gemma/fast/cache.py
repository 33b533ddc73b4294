"""The cache of the autoregressive Gemma: a fixed number of slots, filled from the front.

`(idx, k, v)`: idx int32 [B], the next free slot; k and v [B, capacity, K, H]. All rows write at
the index of row 0, so prompts are aligned to end together.
"""

import jax
import jax.numpy as jnp
import numpy as np

from assay.models.gemma.validation import InvalidInput

KVCache = tuple[jax.Array, jax.Array, jax.Array]


def fill(k: jax.Array, v: jax.Array, *, capacity: int, dtype: jnp.dtype) -> KVCache:
    """A new cache of `capacity` slots that starts with k and v [B, T, K, H], zeros behind them."""
    batch, length = k.shape[:2]
    if capacity < length:
        raise InvalidInput(
            f"the mask makes a cache of {capacity} slots for {length} tokens; "
            "pad its last axis to the tokens of the prompt and those to be decoded"
        )
    padding = ((0, 0), (0, capacity - length), (0, 0), (0, 0))
    keys, values = (jnp.pad(x.astype(dtype), padding) for x in (k, v))
    return jnp.zeros((batch,), dtype=jnp.int32) + length, keys, values


def append(k: jax.Array, v: jax.Array, cache: KVCache, *, dtype: jnp.dtype) -> KVCache:
    """The cache with one more token, k and v [B, 1, K, H].

    Where the cache is full, NaN goes into the last slot in place of the token: every result that
    reads the cache from then on is NaN. `require_room` refuses such a call where it can.
    """
    idx, keys, values = cache
    if k.shape[1] != 1:
        raise InvalidInput(
            f"{k.shape[1]} tokens for a cache that takes one at a time; "
            "decode token by token, or pass no cache to start a new one"
        )
    for held in (keys, values):
        if held.dtype != jnp.dtype(dtype):
            raise InvalidInput(
                f"the cache holds {held.dtype} and would be given {jnp.dtype(dtype)}; "
                "decode with the cache_dtype it was filled with"
            )
    fits = idx[0] < keys.shape[1]
    place = (0, idx[0], 0, 0)
    # NaN is chosen after the cast: before it, XLA could fuse and round otherwise than without.
    keys, values = (
        jax.lax.dynamic_update_slice(held, jnp.where(fits, x.astype(dtype), jnp.nan), place)
        for held, x in ((keys, k), (values, v))
    )
    return idx + 1, keys, values


def require_room(cache: KVCache) -> None:
    """Refuse a full cache, if its index has a value yet (under jit it has none).

    The cache may have a leading axis for layers; they are filled alike.
    """
    idx, keys, _ = cache
    if isinstance(idx, jax.core.Tracer):
        return
    capacity, written = keys.shape[-3], int(np.asarray(idx).flat[0])
    if written >= capacity:
        raise InvalidInput(
            f"the cache has {capacity} slots and all are taken (next index {written}); "
            "decode fewer tokens, or pad the mask at prefill to make more slots"
        )
