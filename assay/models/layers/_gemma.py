"""What both Gemma layers share here: the names of their weights, and what they refuse.

B batch, T length, D width, N query heads, K kv heads, H head dimension.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from assay.host import Host
    from assay.workloads.spec import WorkloadSpec


def parameters(weights: Mapping[str, jax.Array]) -> dict[str, Any]:
    """Of q [N, D, H], k and v [K, D, H] and out [N, H, D]; one weight for all three if N is K."""
    q, k, v = (weights[name] for name in ("q", "k", "v"))
    if q.shape == k.shape:
        into = {"qkv_einsum": {"w": jnp.stack((q, k, v))}}
    else:
        into = {"q_einsum": {"w": q}, "kv_einsum": {"w": jnp.stack((k, v))}}
    return {"in": into, "out": weights["out"]}


def variables(params: Mapping[str, Any]) -> dict[str, Any]:
    """The same, as a Flax module is given them."""
    return {"params": {**params["in"], "attn_vec_einsum": {"w": params["out"]}}}


def sizes(params: Mapping[str, Any]) -> tuple[int, int, int]:
    """N, K and H."""
    heads, head_dim, _ = params["out"].shape
    grouped = params["in"].get("kv_einsum")
    return heads, grouped["w"].shape[1] if grouped else heads, head_dim


def supports(spec: "WorkloadSpec", host: "Host", core: str) -> str | None:
    """What the core itself refuses; it is always given a mask."""
    from assay.attention.sequence import jax_cudnn, jax_pallas

    cores = {"cudnn": jax_cudnn.supports, "pallas": jax_pallas.supports}
    return cores[core](replace(spec, masked=True), host) if core in cores else None
