"""JAX's Pallas attention for GPUs, interpreted on a CPU."""

from functools import partial

import jax

FRAMEWORK = "jax"
LAYOUT = "BSHD"
UPSTREAM = {"package": "jax", "file": "jax/experimental/pallas/ops/gpu/attention.py"}
LIMITS = {"groups": [1]}  # num_heads is one number


def attention(q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool, scale: float) -> jax.Array:
    """q, k and v [B, M or N, H, D] -> [B, M, H, D]."""
    return _mha(q, k, v, causal=bool(causal), scale=float(scale))


@partial(jax.jit, static_argnames=("causal", "scale"))
def _mha(q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool, scale: float) -> jax.Array:
    from jax.experimental.pallas.ops.gpu.attention import mha

    interpret = jax.default_backend() == "cpu"
    return mha(q, k, v, None, sm_scale=scale, causal=causal, interpret=interpret)
