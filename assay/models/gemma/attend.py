"""The attention between a layer's projections as a method, so that a capture can see it."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from assay.models.gemma.cores import CORES


class Attends(nn.Module):
    """A layer that computes its attention with one of the cores."""

    def attend(
        self,
        q: jax.Array,
        k: jax.Array,
        v: jax.Array,
        mask: jax.Array,
        *,
        dtype: jnp.dtype,
        implementation: str,
    ) -> jax.Array:
        """q [B, T, N, H] is turned and scaled; `implementation` is LAYER:CORE."""
        return CORES[implementation.partition(":")[2]](q, k, v, mask, dtype=dtype)
