"""The attention of the autoregressive Gemma, which fills a cache in the dtype of its input."""

from collections.abc import Mapping
from typing import Any

import jax

from assay.models.gemma.fast.attention import AutoregressiveAttention, KVCache
from assay.models.layers.gemma import init, sizes, supports, variables

__all__ = ["apply", "init", "supports"]

REQUIRES = ("flax",)
CORES = ("xla", "cudnn", "pallas")
# Of the released sizes, of common language models, and the same in little for tests.
HEADS = ((8, 1, 256), (32, 32, 128), (32, 8, 128), (8, 1, 16), (32, 32, 16), (32, 8, 16))
CACHE = "slots"
ATOMIC_CORES = ("cudnn",)


def apply(
    params: Mapping[str, Any],
    x: jax.Array,
    positions: jax.Array,
    mask: jax.Array,
    cache: KVCache | None = None,
    *,
    core: str,
) -> tuple[jax.Array, KVCache]:
    """Output [batch, length, width] of x in that shape, and the cache."""
    layer = AutoregressiveAttention(
        **sizes(params), features=x.shape[-1], cache_dtype=str(x.dtype), core=core
    )
    decode = cache is not None
    return layer.apply(variables(params), x, positions, mask, cache, decode)
