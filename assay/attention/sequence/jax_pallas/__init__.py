"""FlashAttention-2 in Pallas, forward and backward; Triton on a GPU, interpreted on the CPU.

B batch, H query heads, G kv heads, M queries, N keys, D head dimension. Arrays are padded to whole
tiles and head dimensions to a power of two; k and v are never repeated for grouped heads. Triton's
place in Pallas is deprecated from JAX 0.11 on; the newest it is known to lower with is 0.11.2.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import lax

from assay.attention.sequence.jax_pallas import backward, forward, tiles
from assay.attention.sequence.jax_pallas.tiles import StaticCall

if TYPE_CHECKING:
    from assay.host import Host
    from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "jax"
ACCEPTS = ("mask", "lengths", "window", "lse")
KERNELS = {"cuda": "assay_flash"}


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
    lse: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """q [B, H, M, D], k and v [B, G, N, D] -> [B, H, M, D]; with `lse` also float32 [B, H, M].

    `mask` is boolean [B or 1, H or 1, M, N], True where a query may look; `lengths` int32 [B].
    """
    if q.shape[-1] > tiles.LARGEST_HEAD_DIM:
        raise ValueError(_too_wide(q.shape[-1]))
    if mask is not None and mask.size > tiles.LARGEST_MASK:
        raise ValueError(
            f"a mask of {mask.shape} is above {tiles.LARGEST_MASK} entries; one that is the same "
            "for all batch entries or heads may have size 1 there"
        )
    out, normaliser = _attention(
        q, k, v, mask, lengths, causal=bool(causal), scale=float(scale), window=window
    )
    return (out, normaliser) if lse else out


def supports(spec: "WorkloadSpec", host: "Host") -> str | None:
    """Refuse head dimensions that fit no tile; every length and dtype will do."""
    return _too_wide(spec.head_dim) if spec.head_dim > tiles.LARGEST_HEAD_DIM else None


def _too_wide(head_dim: int) -> str:
    return f"head_dim {head_dim} is above {tiles.LARGEST_HEAD_DIM}, the widest tile; use jax_xla"


@partial(jax.jit, static_argnames=("causal", "scale", "window"))
def _attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None,
    lengths: jax.Array | None,
    *,
    causal: bool,
    scale: float,
    window: int | None,
) -> tuple[jax.Array, jax.Array]:
    sizes = (q.shape[2], k.shape[2], q.shape[3], q.dtype)
    call = StaticCall(
        queries=q.shape[2],
        keys=k.shape[2],
        group=q.shape[1] // k.shape[1],
        causal=causal,
        scale=scale,
        window=window,
        forward=tiles.tile(*sizes, backward=False),
        backward=tiles.tile(*sizes, backward=True),
    )
    return _flash(call, q, k, v, mask, lengths)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _flash(
    call: StaticCall,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None,
    lengths: jax.Array | None,
) -> tuple[jax.Array, jax.Array]:
    inputs = (*_padded(q, k, v, mask, call.forward), lengths)
    out, lse = _on_platform(forward.run, call, inputs)
    return out[:, :, : call.queries, : q.shape[3]], lse[:, :, : call.queries]


def _flash_forward(call: StaticCall, *inputs: jax.Array | None) -> tuple:
    out, lse = _flash(call, *inputs)
    return (out, lse), (*inputs, out, lse)


def _flash_backward(call: StaticCall, saved: tuple, grads: tuple[jax.Array, jax.Array]) -> tuple:
    q, k, v, mask, lengths, out, lse = saved
    grad_out, grad_lse = grads
    # dS gains P * dLSE, so a gradient of the LSE only shifts delta.
    delta = (grad_out.astype(jnp.float32) * out.astype(jnp.float32)).sum(axis=-1) - grad_lse
    rows = call.backward.queries
    inputs = (
        *_padded(q, k, v, mask, call.backward),
        lengths,
        tiles.padded(grad_out, rows, tiles.power_of_two(q.shape[3])),
        tiles.padded(lse, rows),
        tiles.padded(delta, rows),
    )
    padded_grads = _on_platform(backward.run, call, inputs)
    dq, dk, dv = (
        grad[:, :, : like.shape[2], : like.shape[3]]
        for grad, like in zip(padded_grads, (q, k, v), strict=True)
    )
    return dq, dk, dv, None, None


_flash.defvjp(_flash_forward, _flash_backward)


def _padded(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array | None, tile: tiles.Tile
) -> tuple[jax.Array | None, ...]:
    """q, k, v and mask, padded to whole tiles and to a power of two of head dimensions."""
    dim = tiles.power_of_two(q.shape[3])
    return (
        tiles.padded(q, tile.queries, dim),
        tiles.padded(k, tile.keys, dim),
        tiles.padded(v, tile.keys, dim),
        tiles.padded(mask, tile.queries, tile.keys),
    )


def _on_platform(run: Callable[..., tuple], call: StaticCall, inputs: tuple) -> tuple:
    """The compiled kernel, or the interpreted one where the program is meant for a CPU."""
    return lax.platform_dependent(
        *inputs,
        cpu=partial(run, call=call, interpret=True),
        default=partial(run, call=call, interpret=False),
    )
