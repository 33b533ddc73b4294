"""Attention in JAX with float32 inside, for any input."""

import jax
import jax.numpy as jnp

FRAMEWORK = "jax"
PLANTED = "half precision inputs give a float32 output"
CAUGHT_BY = ("accuracy", "shapes")
CAUSE = ("dtype", "float32")


def attention(q, k, v, *, causal: bool, scale: float):
    queries, keys, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    k, v = (jnp.repeat(x.astype(jnp.float32), group, axis=1) for x in (k, v))
    exact = jax.lax.Precision.HIGHEST
    scores = scale * jnp.einsum("bhmd,bhnd->bhmn", q.astype(jnp.float32), k, precision=exact)
    seen = jnp.ones((queries, keys), dtype=bool)
    if causal:
        seen = jnp.tril(seen, keys - queries)
    weights = jax.nn.softmax(jnp.where(seen, scores, -3e38), axis=-1)
    weights = jnp.where(seen, weights, 0.0)
    out = jnp.einsum("bhmn,bhnd->bhmd", weights, v, precision=exact)
    return out
