"""Rotary position embedding with split halves: j turns with j + H/2, not with its neighbour.

Su et al. 2021 (arXiv 2104.09864), section 3.2, in the pairing that Gemma uses.
"""

import jax
import jax.numpy as jnp

from assay.models.gemma.validation import InvalidInput

BASE = 10_000


def rotate(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Turn x [B, L, heads, H] by positions [B or 1, L]; the result is float32 for any x.

    Pair j < H/2 turns by position / 10000^(2j/H) radians, computed in float32. A position may be
    negative (left padding counted by cumsum - 1 gives -1).
    """
    dim = x.shape[-1]
    if dim % 2:
        raise InvalidInput(f"head_dim {dim} is odd; rotary embedding turns pairs, give an even one")
    # The order of these operations decides the last bit; it is the order of existing checkpoints.
    exponents = (2.0 / dim) * jnp.arange(dim // 2, dtype=jnp.float32)
    wavelengths = BASE**exponents
    radians = positions[..., None] / wavelengths[None, None, :]
    radians = radians[..., None, :]  # one angle for all heads
    sin, cos = jnp.sin(radians), jnp.cos(radians)
    low, high = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)
