"""flash_attention and causal_flash_attention of flash-attention-jax, with its own backward."""

from functools import cache, partial
from types import ModuleType

import jax
import jax.numpy as jnp
from _refusals import only_default_scale
from _upstream import Upstream

FRAMEWORK = "jax"
UPSTREAM = {
    "repository": "lucidrains/flash-attention-jax",
    "commit": "d73dcdd6cb4b4f8d786922e2ec6826036dae896a",
    "files": {
        "flash_attention_jax/flash_attention.py": "c39ef9eb7dbe6724101f",
        "flash_attention_jax/causal_flash_attention.py": "cd3cd58eedc17a81cc3f",
    },
}
LIMITS = {"groups": [1]}  # heads is one number

upstream = Upstream(**UPSTREAM)
supports = partial(only_default_scale, upstream)


def attention(q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool, scale: float) -> jax.Array:
    """q, k and v [B, H, M or N, D] -> [B, H, M, D]."""
    full, masked = _modules()
    if causal:
        return masked.causal_flash_attention(q, k, v)
    return full.flash_attention(q, k, v, jnp.ones((k.shape[0], k.shape[2]), bool))


@cache
def _modules() -> list[ModuleType]:
    return [upstream.load(file) for file in UPSTREAM["files"]]
