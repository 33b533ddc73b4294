"""Building blocks of both Gemma models: projections, rotary positions, norm, embedding, stack.

B batch, T or S length, D width, N query heads, K kv heads, H head dimension. Functions that make
submodules are called inside a compact method: the submodules, and so the parameters, belong to it.
"""

from collections.abc import Callable
from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from assay.models.gemma import lora
from assay.models.gemma.validation import InvalidInput, require_groups, require_width

EPSILON = 1e-06
ROPE_BASE = 10_000


def project_in(
    x: jax.Array,
    *,
    num_heads: int,
    num_kv_heads: int,
    width: int,
    head_dim: int,
    lora_config: lora.LoRAConfig | None,
    expert: int = 0,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """q [B, T, N, H], k and v [B, T, K, H] of x [B, T, D].

    One weight `qkv_einsum` holds all three where N equals K, else there are `q_einsum` and
    `kv_einsum`.
    """
    require_width(x, width)
    require_groups(num_heads, num_kv_heads)

    def einsum(name: str, *leading: int) -> lora.Einsum:
        return lora.Einsum(
            shape=(*leading, width, head_dim),
            init_fn=nn.initializers.lecun_normal(
                in_axis=-2, out_axis=-1, batch_axis=tuple(range(len(leading)))
            ),
            lora_config=lora_config,
            name=expert_name(name, expert),
        )

    if num_heads == num_kv_heads:
        q, k, v = einsum("qkv_einsum", 3, num_heads)("BSD,3KDH->3BSKH", x)
    else:
        q = einsum("q_einsum", num_heads)("BTD,NDH->BTNH", x)
        k, v = einsum("kv_einsum", 2, num_kv_heads)("BSD,2KDH->2BSKH", x)
    return q, k, v


def project_out(
    encoded: jax.Array,
    *,
    width: int,
    init_fn: nn.initializers.Initializer,
    lora_config: lora.LoRAConfig | None,
    expert: int = 0,
) -> jax.Array:
    """[B, T, N, H] to [B, T, D] through `attn_vec_einsum`."""
    einsum = lora.Einsum(
        shape=(*encoded.shape[2:], width),
        init_fn=init_fn,
        lora_config=lora_config,
        name=expert_name("attn_vec_einsum", expert),
    )
    return einsum("BTNH,NHD->BTD", encoded)


def expert_name(name: str, expert: int) -> str:
    """The name of a part of an expert: the first expert's have no suffix, as in PaliGemma."""
    return f"{name}_{expert}" if expert else name


def rotate(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Turn x [B, T, heads, H] by positions [B or 1, T]; the result is float32 for any x.

    Su et al. 2021 (arXiv 2104.09864), section 3.2, in the pairing that Gemma uses: dimension j
    turns with j + H/2, not with its neighbour. Pair j < H/2 turns by position / 10000^(2j/H)
    radians, computed in float32. A position may be negative (left padding counted by cumsum - 1
    gives -1).
    """
    dim = x.shape[-1]
    if dim % 2:
        raise InvalidInput(f"head_dim {dim} is odd; rotary embedding turns pairs, give an even one")
    # The order of these operations decides the last bit; it is the order of existing checkpoints.
    exponents = (2.0 / dim) * jnp.arange(dim // 2, dtype=jnp.float32)  # [H / 2]
    wavelengths = ROPE_BASE**exponents
    radians = positions[..., None] / wavelengths[None, None, :]  # [B or 1, T, H / 2]
    radians = radians[..., None, :]  # one angle for all heads
    sin, cos = jnp.sin(radians), jnp.cos(radians)
    low, high = jnp.split(x, 2, axis=-1)  # each [B, T, heads, H / 2]
    return jnp.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)


def unit_rms(x: jax.Array) -> jax.Array:
    """x divided by its root mean square along the last axis, in float32.

    Zhang and Sennrich 2019 (arXiv 1910.07467), equation 4.
    """
    mean_square = jnp.mean(jnp.square(x.astype(jnp.float32)), axis=-1, keepdims=True)  # [..., 1]
    return x * jnp.reciprocal(jnp.sqrt(mean_square + EPSILON))


def learned_scale(module: nn.Module, width: int) -> jax.Array:
    """1 + the parameter `scale` of a norm, [width]."""
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
    """The dropout of a block's changes to its residual stream, by the block's fields for it."""
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
