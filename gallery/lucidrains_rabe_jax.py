"""rabe_attention of flash-attention-jax, for each head."""

from functools import partial

import jax
from _refusals import only_default_scale
from _upstream import Upstream

FRAMEWORK = "jax"
UPSTREAM = {
    "repository": "lucidrains/flash-attention-jax",
    "commit": "d73dcdd6cb4b4f8d786922e2ec6826036dae896a",
    "files": {"flash_attention_jax/rabe_attention.py": "ba76cc2e911ff259d2b6"},
}
LIMITS = {"groups": [1], "masks": "full"}  # it knows neither heads nor a mask

upstream = Upstream(**UPSTREAM)
supports = partial(only_default_scale, upstream)


def attention(q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool, scale: float) -> jax.Array:
    """q, k and v [B, H, M or N, D] -> [B, H, M, D]."""
    return jax.vmap(jax.vmap(upstream.module.rabe_attention))(q, k, v)
