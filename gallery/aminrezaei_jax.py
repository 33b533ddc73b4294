"""efficient_dot_product_attention of memory-efficient-attention, in JAX."""

from functools import partial

import jax
import jax.numpy as jnp
from _refusals import only_default_scale
from _upstream import Upstream

FRAMEWORK = "jax"
LAYOUT = "BSHD"
UPSTREAM = {
    "repository": "AminRezaei0x443/memory-efficient-attention",
    "commit": "882c5e70d6b06b3215355b35435211c5b8caa75d",
    "files": {"memory_efficient_attention/attention_jax.py": "54dc04e127de17f4564d"},
}
LIMITS = {"groups": [1]}  # num_heads is one number in its documentation

upstream = Upstream(**UPSTREAM)
supports = partial(only_default_scale, upstream)


def attention(q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool, scale: float) -> jax.Array:
    """q, k and v [B, M or N, H, D] -> [B, M, H, D]; the causal mask is an array, as documented."""
    queries, keys = q.shape[1], k.shape[1]
    shape = (q.shape[0], q.shape[2], queries, keys)
    mask = jnp.tril(jnp.ones(shape, bool), keys - queries) if causal else None
    return upstream.module.efficient_dot_product_attention(q, k, v, mask=mask)
