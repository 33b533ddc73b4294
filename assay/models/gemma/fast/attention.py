"""Attention of the autoregressive Gemma: one set of weights, a cache of fixed size.

B batch, T queries, S slots of the cache, D width, N query heads, K kv heads, H head dimension.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from assay.models.gemma.attend import Attends
from assay.models.gemma.cores import chosen_core, require_core
from assay.models.gemma.fast.cache import KVCache, append, fill, require_room
from assay.models.gemma.lora import LoRAConfig
from assay.models.gemma.projection import project_in, project_out
from assay.models.gemma.rope import rotate
from assay.models.gemma.validation import require_mask, require_positions


class AutoregressiveAttention(Attends):
    """Attention over the slots of a cache, which the call makes or extends.

    Turned queries stay float32. Keys and values are cast to `cache_dtype` (float32 where it is
    None) and attention reads the cast ones, in training too. The output has the dtype of x
    promoted with that of the cache: a bfloat16 x needs a bfloat16 cache to stay bfloat16.
    `core` chooses how the attention itself is computed: xla, cudnn, pallas, or auto, which takes
    what the thresholds file of `assay law` says is the fastest here and xla where it says nothing.
    """

    num_heads: int
    num_kv_heads: int
    features: int
    head_dim: int
    cache_dtype: str | None = None
    lora_config: LoRAConfig | None = None
    core: str = "auto"

    def __post_init__(self) -> None:
        require_core(self.core)
        super().__post_init__()

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
        """Attend; `(output [B, T, D], cache)`.

        x: [B, T, D]. positions: int [B or 1, T], from the caller, never from the cache.
        attn_mask: [B, 1, T, S], True where a query may attend; S is the capacity of the cache.
        kv_cache: None to make one of S slots, else what an earlier call returned, and T is 1.
        A full cache is refused; under jit, where that is not known, the output is NaN.
        `decode` and `deterministic` change nothing; callers pass them.
        """
        if kv_cache is not None:
            require_room(kv_cache)
        q, k, v = project_in(
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
        cache = self._cached(k, v, attn_mask, kv_cache)
        _, keys, values = cache
        require_mask(attn_mask, wanted=(batch, 1, length, keys.shape[1]))
        core = chosen_core(self.core, q, keys, values, dtype=x.dtype, layer="gemma_fast")
        encoded = self.attend(
            q, keys, values, attn_mask, dtype=x.dtype, implementation=f"gemma_fast:{core}"
        )
        out = project_out(
            encoded,
            width=self.features,
            init_fn=nn.initializers.lecun_normal(in_axis=-2, out_axis=-1, batch_axis=(0,)),
            lora_config=self.lora_config,
        )
        return out, cache

    def _cached(
        self, k: jax.Array, v: jax.Array, attn_mask: jax.Array, kv_cache: KVCache | None
    ) -> KVCache:
        dtype = jnp.dtype(self.cache_dtype or k.dtype)
        if kv_cache is None:
            return fill(k, v, capacity=attn_mask.shape[-1], dtype=dtype)
        return append(k, v, kv_cache, dtype=dtype)
