"""The attention of the Gemma in which several experts see one sequence, here with one expert.

B batch, T length, D width, N query heads, K kv heads, H head dimension.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from assay.models.gemma.attention import KVCache, MixtureAttention
from assay.models.gemma.config import ExpertConfig

if TYPE_CHECKING:
    from assay.host import Host
    from assay.workloads.spec import WorkloadSpec

REQUIRES = ("flax",)
CORES = ("xla", "cudnn", "pallas")
# Of the released sizes, of common language models, and the same in little for tests.
HEADS = ((8, 1, 256), (32, 32, 128), (32, 8, 128), (8, 1, 16), (32, 32, 16), (32, 8, 16))
CACHE = "tokens"
ATOMIC_CORES = ("cudnn",)


def init(spec: "WorkloadSpec", weights: Mapping[str, jax.Array]) -> dict[str, Any]:
    """Parameters of q [N, D, H], k and v [K, D, H] and out [N, H, D].

    One weight holds q, k and v where N is K.
    """
    q, k, v = (weights[name] for name in ("q", "k", "v"))
    if q.shape == k.shape:
        into = {"qkv_einsum": {"w": jnp.stack((q, k, v))}}
    else:
        into = {"q_einsum": {"w": q}, "kv_einsum": {"w": jnp.stack((k, v))}}
    return {"in": into, "out": weights["out"]}


def apply(
    params: Mapping[str, Any],
    x: jax.Array,
    positions: jax.Array,
    mask: jax.Array,
    cache: KVCache | None = None,
    *,
    core: str,
) -> tuple[jax.Array, KVCache]:
    """Output [B, T, D] of x [B, T, D], and the cache."""
    config = ExpertConfig(
        width=x.shape[-1],
        depth=1,  # not used, nor is the size of the MLP: this is the attention alone
        mlp_dim=1,
        **sizes(params),
    )
    layer = MixtureAttention(configs=[config], core=core)
    (out,), cache = layer.apply(variables(params), [x], positions, mask, cache)
    return out, cache


def sizes(params: Mapping[str, Any]) -> dict[str, int]:
    """N, K and H as the fields of an attention are called."""
    heads, head_dim, _ = params["out"].shape
    grouped = params["in"].get("kv_einsum")
    kv_heads = grouped["w"].shape[1] if grouped else heads
    return {"num_heads": heads, "num_kv_heads": kv_heads, "head_dim": head_dim}


def variables(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as a Flax module takes them."""
    return {"params": {**params["in"], "attn_vec_einsum": {"w": params["out"]}}}


def supports(spec: "WorkloadSpec", host: "Host", core: str) -> str | None:
    """The reason why the core refuses a workload, which it is always given with a mask; or None."""
    from assay.attention.sequence import jax_cudnn, jax_pallas

    cores = {"cudnn": jax_cudnn.supports, "pallas": jax_pallas.supports}
    return cores[core](replace(spec, masked=True), host) if core in cores else None
