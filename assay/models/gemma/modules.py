"""The parts that both Gemma models have: norm, embedding table, dropout, the stack of layers.

B batch, T length, D width.
"""

from collections.abc import Callable
from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

EPSILON = 1e-06


def unit_rms(x: jax.Array) -> jax.Array:
    """x divided by its root mean square along the last axis, in float32.

    Zhang and Sennrich 2019 (arXiv 1910.07467), equation 4.
    """
    mean_square = jnp.mean(jnp.square(x.astype(jnp.float32)), axis=-1, keepdims=True)
    return x * jnp.reciprocal(jnp.sqrt(mean_square + EPSILON))


def learned_scale(module: nn.Module, width: int) -> jax.Array:
    """1 + the parameter `scale` of the norm that asks."""
    return 1 + module.param("scale", nn.initializers.zeros_init(), (width,))


class Embedder(nn.Module):
    """One table for tokens in and logits out."""

    TABLE_INIT: ClassVar[nn.initializers.Initializer] = staticmethod(nn.initializers.normal())

    vocab_size: int
    embed_dim: int

    def setup(self) -> None:
        """Make the table, float32."""
        self.input_embedding_table = self.param(
            "input_embedding", self.TABLE_INIT, (self.vocab_size, self.embed_dim)
        )

    def encode(self, x: jax.Array) -> jax.Array:
        """Token numbers [...] to rows of the table times sqrt(width), float32 [..., D]."""
        rows = jnp.asarray(self.input_embedding_table)[(x,)]
        return rows * jnp.sqrt(self.embed_dim).astype(rows.dtype)

    def decode(self, x: jax.Array) -> jax.Array:
        """Activations [..., D] to logits [..., vocabulary]."""
        return jnp.dot(x, self.input_embedding_table.T)


def dropout(
    module: nn.Module, *, deterministic: bool, name: str | None = None
) -> Callable[[jax.Array], jax.Array]:
    """What a block does to a change of its residual stream, going by its fields for dropout."""
    if not module.dropout:
        return lambda x: x
    drop = nn.Dropout(module.dropout, module.dropout_bdims, name=name)
    return lambda x: drop(x, deterministic)


def stack(block: type[nn.Module], *, depth: int) -> Callable[..., nn.Module]:
    """`depth` blocks as one: parameters and caches have a leading axis for the layers.

    The block is called with x, its cache, and four arguments that are the same for all layers.
    """
    each_layer, every_layer = 0, nn.broadcast
    return nn.scan(
        block,
        variable_axes={"params": 0},
        split_rngs={"params": True, "dropout": True},
        in_axes=(each_layer, every_layer, every_layer, every_layer, every_layer),
        length=depth,
    )


def on_mesh(x: jax.Array) -> jax.Array:
    """x [B, T, D] laid out by Flax's logical axis rules, if the caller has set any."""
    return nn.with_logical_constraint(x, ("act_batch", "act_len", "act_emb"))
