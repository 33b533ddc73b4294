"""Attention in plain JAX, as XLA compiles it: the whole score matrix, softmax in float32."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from assay.attention.sequence._visibility import visibility_mask

FRAMEWORK = "jax"
ACCEPTS = ("mask", "lengths", "window", "cu_seqlens", "lse")


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    causal: bool,
    scale: float,
    mask: jax.Array | None = None,
    lengths: jax.Array | None = None,
    window: int | None = None,
    cu_seqlens: tuple[jax.Array, jax.Array] | None = None,
    lse: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]; with `lse` also float32 [B, H, M].

    Memory grows with M x N. Masks are those of `_visibility.visibility_mask`.
    """
    limits = {"mask": mask, "lengths": lengths, "cu_seqlens": cu_seqlens}
    out, normaliser = _attention(
        q, k, v, limits, causal=bool(causal), scale=float(scale), window=window
    )
    return (out, normaliser) if lse else out


@partial(jax.jit, static_argnames=("causal", "scale", "window"))
def _attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    limits: dict,
    *,
    causal: bool,
    scale: float,
    window: int | None,
) -> tuple[jax.Array, jax.Array]:
    batch, heads, queries, dim = q.shape
    kv_heads, keys = k.shape[1:3]
    # Without TF32; halves multiply as they are and add up in float32.
    exact = lax.Precision.HIGHEST if q.dtype == jnp.float32 else lax.Precision.DEFAULT
    product = partial(jnp.einsum, precision=exact, preferred_element_type=jnp.float32)

    grouped = q.reshape(batch, kv_heads, heads // kv_heads, queries, dim)  # [B, G, H/G, M, D]
    scores = product("bghmd,bgnd->bghmn", grouped, k) * scale
    scores = scores.reshape(batch, heads, queries, keys)  # [B, H, M, N]
    visible = visibility_mask(
        queries, keys, arange=jnp.arange, causal=causal, window=window, **limits
    )
    scores = jnp.where(visible, scores, -jnp.inf)
    row_max = lax.stop_gradient(scores.max(axis=-1, keepdims=True))  # [B, H, M, 1]
    row_max = jnp.where(row_max == -jnp.inf, 0.0, row_max)  # a row that sees nothing
    weights = jnp.exp(scores - row_max)
    row_sum = weights.sum(axis=-1, keepdims=True)
    fully_masked = row_sum == 0.0
    row_sum = jnp.where(fully_masked, 1.0, row_sum)
    lse = jnp.where(fully_masked, -jnp.inf, row_max + jnp.log(row_sum))[..., 0]  # [B, H, M]

    probabilities = (weights / row_sum).astype(v.dtype)
    probabilities = probabilities.reshape(*grouped.shape[:4], keys)
    out = product("bghmn,bgnd->bghmd", probabilities, v)
    return out.reshape(q.shape).astype(q.dtype), lse
