"""jax.nn.dot_product_attention, as XLA compiles it, with is_causal."""

import jax

FRAMEWORK = "jax"
LAYOUT = "BSHD"
UPSTREAM = {"package": "jax", "file": "jax/_src/nn/functions.py"}


def attention(q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool, scale: float) -> jax.Array:
    """q [B, M, H, D], k and v [B, N, G, D] -> [B, M, H, D]."""
    return jax.nn.dot_product_attention(
        q, k, v, scale=scale, is_causal=causal, implementation="xla"
    )
