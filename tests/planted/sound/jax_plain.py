"""Plain attention in JAX: float32 scores and softmax, products at the highest precision."""

import jax
import jax.numpy as jnp

FRAMEWORK = "jax"


def attention(q, k, v, *, causal: bool, scale: float):
    batch, heads, queries, dim = q.shape
    kv_heads, keys = k.shape[1:3]
    grouped = q.reshape(batch, kv_heads, heads // kv_heads, queries, dim).astype(jnp.float32)
    exact = {"precision": jax.lax.Precision.HIGHEST, "preferred_element_type": jnp.float32}
    scores = scale * jnp.einsum("bgrmd,bgnd->bgrmn", grouped, k.astype(jnp.float32), **exact)
    seen = jnp.ones((queries, keys), dtype=bool)
    if causal:
        seen = jnp.arange(keys) <= jnp.arange(queries)[:, None] + keys - queries
    weights = jax.nn.softmax(jnp.where(seen, scores, -3e38), axis=-1)
    weights = jnp.where(seen, weights, 0.0)
    out = jnp.einsum("bgrmn,bgnd->bgrmd", weights, v.astype(jnp.float32), **exact)
    return out.reshape(q.shape).astype(q.dtype)
