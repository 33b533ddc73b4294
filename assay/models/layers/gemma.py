"""The attention of the Gemma in which several experts see one sequence, here with one expert."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax

from assay.models.gemma.attention import KVCache, MixtureAttention
from assay.models.gemma.config import ExpertConfig
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
    config = ExpertConfig(
        width=x.shape[-1],
        depth=1,  # not used, nor is the size of the MLP: this is the attention alone
        mlp_dim=1,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
    )
    layer = MixtureAttention(configs=[config], core=core)
    (out,), cache = layer.apply(_gemma.variables(params), [x], positions, mask, cache)
    return out, cache


def supports(spec: "WorkloadSpec", host: "Host", core: str) -> str | None:
    """None, or why not."""
    return _gemma.supports(spec, host, core)
