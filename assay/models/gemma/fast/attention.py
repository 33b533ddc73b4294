"""Attention of the autoregressive Gemma, and its cache of a fixed number of slots.

The cache is `(idx, k, v)`: idx int32 [B], the next free slot; k and v [B, S, K, H], filled from the
front. All rows write at the index of row 0, so prompts are aligned to end together. B batch, T
queries, S slots, D width, N query heads, K kv heads, H head dimension.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from assay.models.gemma.cores import AttentionWithCore, chosen_core
from assay.models.gemma.lora import LoRAConfig
from assay.models.gemma.modules import project_in, project_out, rotate
from assay.models.gemma.validation import InvalidInput, require_mask, require_positions

KVCache = tuple[jax.Array, jax.Array, jax.Array]


class AutoregressiveAttention(AttentionWithCore):
    """Attention over the slots of a cache, which the call makes or extends.

    Turned queries stay float32. Keys and values are cast to `cache_dtype` (float32 where it is
    None) and attention reads the cast ones, in training too. The output has the dtype of x
    promoted with that of the cache: a bfloat16 x needs a bfloat16 cache to stay bfloat16.
    """

    num_heads: int
    num_kv_heads: int
    features: int
    head_dim: int
    cache_dtype: str | None = None
    lora_config: LoRAConfig | None = None
    core: str = "auto"

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        positions: jax.Array,
        attn_mask: jax.Array,
        kv_cache: KVCache | None,
        decode: bool,
        deterministic: bool = True,
    ) -> tuple[jax.Array, KVCache]:
        """Attend; return the output [B, T, D] and the cache.

        x: [B, T, D]. positions: int [B or 1, T], from the caller, never from the cache.
        attn_mask: [B, 1, T, S], True where a query may attend; S is the capacity of the cache.
        kv_cache: None to make one of S slots, else what an earlier call returned, and T is 1.
        A full cache is refused; under jit, where that is not known, the output is NaN.
        `decode` and `deterministic` change nothing; callers pass them.
        """
        if kv_cache is not None:
            require_room(kv_cache)
        q, k, v = project_in(  # [B, T, N, H] and twice [B, T, K, H]
            x,
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            width=self.features,
            head_dim=self.head_dim,
            lora_config=self.lora_config,
        )
        batch, length = x.shape[:2]
        require_positions(positions, batch=batch, length=length)
        q = rotate(q, positions) * self.head_dim**-0.5
        k = rotate(k, positions)
        dtype = jnp.dtype(self.cache_dtype or k.dtype)
        if kv_cache is None:
            cache = fill(k, v, capacity=attn_mask.shape[-1], dtype=dtype)
        else:
            cache = append(k, v, kv_cache, dtype=dtype)
        _, keys, values = cache  # twice [B, S, K, H]
        require_mask(attn_mask, wanted=(batch, 1, length, keys.shape[1]))
        core = chosen_core(self.core, q, keys, values, dtype=x.dtype, layer="gemma_fast")
        encoded = self.attend(  # [B, T, N, H]
            q, keys, values, attn_mask, dtype=x.dtype, implementation=f"gemma_fast:{core}"
        )
        out = project_out(
            encoded,
            width=self.features,
            init_fn=nn.initializers.lecun_normal(in_axis=-2, out_axis=-1, batch_axis=(0,)),
            lora_config=self.lora_config,
        )
        return out, cache


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
