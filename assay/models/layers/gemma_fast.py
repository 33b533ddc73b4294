"""The attention of the autoregressive Gemma, which fills a cache in the dtype of its input."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax

from assay.models.gemma.fast.attention import AutoregressiveAttention
from assay.models.gemma.fast.cache import KVCache
from assay.models.layers import _gemma

if TYPE_CHECKING:
    from assay.host import Host
    from assay.workloads.spec import WorkloadSpec

REQUIRES = ("flax",)
CORES = ("xla", "cudnn", "pallas")
HEADS = ((8, 1, 256), (8, 1, 16))  # of the released sizes, and of the one for tests


def init(spec: "WorkloadSpec", weights: Mapping[str, jax.Array]) -> dict[str, Any]:
    """Parameters with these weights."""
    return _gemma.parameters(weights)


def apply(
    params: Mapping[str, Any],
    x: jax.Array,
    positions: jax.Array,
    mask: jax.Array,
    cache: KVCache | None = None,
    *,
    core: str,
) -> tuple[jax.Array, KVCache]:
    """Output and cache."""
    heads, kv_heads, head_dim = _gemma.sizes(params)
    layer = AutoregressiveAttention(
        num_heads=heads,
        num_kv_heads=kv_heads,
        features=x.shape[-1],
        head_dim=head_dim,
        cache_dtype=str(x.dtype),
        core=core,
    )
    decode = cache is not None
    return layer.apply(_gemma.variables(params), x, positions, mask, cache, decode)


def supports(spec: "WorkloadSpec", host: "Host", core: str) -> str | None:
    """None, or why not."""
    return _gemma.supports(spec, host, core)
