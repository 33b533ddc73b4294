"""mha_reference, with which JAX tests its Pallas attention for GPUs."""

import jax

FRAMEWORK = "jax"
LAYOUT = "BSHD"
UPSTREAM = {"package": "jax", "file": "jax/experimental/pallas/ops/gpu/attention.py"}
LIMITS = {"groups": [1]}  # its products have one axis of heads


def attention(q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool, scale: float) -> jax.Array:
    """q, k and v [B, M or N, H, D] -> [B, M, H, D]; it returns float32."""
    from jax.experimental.pallas.ops.gpu.attention import mha_reference

    out = mha_reference(q, k, v, None, sm_scale=scale, causal=causal)
    return out.astype(q.dtype)
