"""The projections around the attention of a Gemma layer, as submodules of the calling module.

B batch, T or S length, D width, N query heads, K kv heads, H head dimension. These functions are
called inside a compact method: the submodules they make, and so the parameters, belong to it.
"""

import flax.linen as nn
import jax

from assay.models.gemma import lora
from assay.models.gemma.validation import require_groups, require_width


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
