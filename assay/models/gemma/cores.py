"""Exchangeable cores of a Gemma layer: the attention between its projections.

B batch, T queries, S keys, N query heads, K kv heads, G = N / K, H head dimension. A core takes
q [B, T, N, H], already turned and scaled, k and v [B, S, K, H] and mask [B, 1, T, S] (True: may
attend), and gives [B, T, N, H]. Query head n reads kv head n // G. `dtype` is the dtype of the
layer's input; the result has the dtype of `dtype` promoted with v's. A query that may attend to
nothing gets the plain mean of v over all S slots, padding included, in every core: that is what
softmax over equally hidden scores gives, and what existing checkpoints were trained with.
"""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from assay.attention.thresholds import measured_core
from assay.errors import BadInput
from assay.models.gemma.validation import InvalidInput

Core = Callable[..., jax.Array]

# About -0.7 of float32's largest number, finite so that a row of nothing else has no NaN.
HIDDEN = -2.3819763e38


def xla(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array, *, dtype: jnp.dtype
) -> jax.Array:
    """The whole score matrix in float32; probabilities are rounded to `dtype` before they meet v.

    The operations and their order are those that existing checkpoints were trained with.
    """
    batch, queries, heads, dim = q.shape
    kv_heads = k.shape[2]
    grouped = q.reshape(batch, queries, kv_heads, heads // kv_heads, dim)  # [B, T, K, G, H]
    scores = jnp.einsum("BTKGH,BSKH->BKGTS", grouped, k, preferred_element_type=jnp.float32)
    scores = jnp.where(mask[:, :, None, :, :], scores, HIDDEN)  # mask [B, 1, 1, T, S]
    weights = jax.nn.softmax(scores, axis=-1).astype(dtype)  # [B, K, G, T, S]
    out = jnp.einsum("BKGTS,BSKH->BTKGH", weights, v)
    return out.reshape(batch, queries, heads, out.shape[-1])


def pallas(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array, *, dtype: jnp.dtype
) -> jax.Array:
    """Tiles in Pallas; q, k and v are promoted to their common dtype, as the `xla` core does."""
    from assay.attention.sequence import jax_pallas

    working = jnp.result_type(q, k, v)
    heads_first = (x.astype(working).swapaxes(1, 2) for x in (q, k, v))  # [B, N or K, T or S, H]
    visible = mask.astype(bool)
    out = jax_pallas.attention(*heads_first, causal=False, scale=1.0, mask=visible)
    return _with_blind_rows(out.swapaxes(1, 2), v, visible, dtype=dtype)


def cudnn(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array, *, dtype: jnp.dtype
) -> jax.Array:
    """cuDNN's kernel; q, k and v are given in the dtype of the result.

    cuDNN knows half precision only, so that a float32 q beside half-precision k and v (as
    `gemma_fast` has it) is rounded to theirs, and a float32 result is refused.
    """
    from assay.attention.sequence import jax_cudnn

    working = jnp.result_type(dtype, v.dtype)
    if working == jnp.float32:
        raise InvalidInput(
            f"cuDNN computes in half precision, the input is {jnp.dtype(dtype)} and the keys and "
            f"values are {v.dtype}; use core='xla' or 'pallas', or bfloat16 for input and cache"
        )
    visible = mask.astype(bool)
    halves = (x.astype(working) for x in (q, k, v))
    out = jax_cudnn.attention(*halves, causal=False, scale=1.0, mask=visible)  # [B, T, N, H]
    return _with_blind_rows(out, v, visible, dtype=dtype)


CORES: dict[str, Core] = {"xla": xla, "cudnn": cudnn, "pallas": pallas}
FALLBACK = "xla"  # what "auto" means where nothing was measured


class WithCore(nn.Module):
    """A module whose field `core` names how attention is computed: xla, cudnn, pallas, or auto,
    which takes what the thresholds file of `assay law` says is the fastest here, else xla."""

    def __post_init__(self) -> None:
        if self.core not in CORES and self.core != "auto":
            raise InvalidInput(
                f"there is no attention core {self.core!r}; choose {', '.join(CORES)} or auto"
            )
        super().__post_init__()


class AttentionWithCore(WithCore):
    """A layer whose attention is one of the cores, called in a method that a capture can see."""

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


def chosen_core(
    name: str, q: jax.Array, k: jax.Array, v: jax.Array, *, dtype: jnp.dtype, layer: str | None
) -> str:
    """The name of the core that `name` means for these inputs: "auto" is the one that the
    thresholds file calls the fastest on this machine, else `xla`.

    Thresholds are measured with as many queries as keys, so decoding one token stays with `xla`.
    Under jit the choice is made once, while tracing: shapes and dtypes are known then.
    """
    if name != "auto":
        return name
    chosen = None
    if q.shape[1] > 1:
        try:
            chosen = measured_core(
                level="layer",
                layer=layer,
                heads=q.shape[2],
                kv_heads=k.shape[2],
                head_dim=q.shape[3],
                dtype=str(jnp.dtype(dtype)),
                keys=k.shape[1],
                usable=_usable(jnp.result_type(dtype, v.dtype)),
            )
        except BadInput as error:
            raise InvalidInput(f"core='auto': {error}") from error
    return chosen or FALLBACK


def _usable(working: jnp.dtype) -> tuple[str, ...]:
    """The cores that would not refuse; cuDNN wants a GPU and half precision."""
    cudnn_runs = working != jnp.float32 and jax.default_backend() == "gpu"
    return tuple(name for name in CORES if name != "cudnn" or cudnn_runs)


def _with_blind_rows(
    out: jax.Array, v: jax.Array, visible: jax.Array, *, dtype: jnp.dtype
) -> jax.Array:
    """Put the mean of v, with the rounding of the `xla` core, where a query sees nothing.

    A NaN in v, hidden or not, also reaches every query, as 0 * NaN does in the `xla` core: that is
    how a cache that ran over its end makes itself known.
    """
    share = jnp.asarray(1 / v.shape[1], jnp.float32).astype(dtype).astype(jnp.float32)
    mean = share * v.astype(jnp.float32).sum(axis=1, keepdims=True)  # [B, 1, K, H]
    mean = jnp.repeat(mean, out.shape[2] // v.shape[2], axis=2)  # [B, 1, N, H]
    blind = ~visible.any(axis=-1)[:, 0, :, None, None]  # [B, T, 1, 1]
    result = jnp.where(blind | jnp.isnan(mean), mean, out)
    return result.astype(jnp.result_type(dtype, v.dtype))
