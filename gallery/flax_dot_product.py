"""flax.linen.dot_product_attention, with an array for the causal mask."""

import jax
import jax.numpy as jnp
from _refusals import no_scale

FRAMEWORK = "jax"
REQUIRES = ("flax",)
LAYOUT = "BSHD"
UPSTREAM = {"package": "flax", "file": "flax/linen/attention.py"}
LIMITS = {"groups": [1]}  # num_heads is one number in its documentation

supports = no_scale


def attention(q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool, scale: float) -> jax.Array:
    """q, k and v [B, M or N, H, D] -> [B, M, H, D]."""
    from flax.linen import dot_product_attention

    queries, keys = q.shape[1], k.shape[1]
    mask = jnp.tril(jnp.ones((1, 1, queries, keys), bool), keys - queries) if causal else None
    return dot_product_attention(q, k, v, mask=mask)
