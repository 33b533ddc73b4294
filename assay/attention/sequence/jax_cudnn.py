"""cuDNN's fused attention as JAX calls it: NVIDIA GPUs, half precision.

cuDNN aligns a causal mask top-left, the opposite of what is wanted here, so it is asked for one
only where both are the same (as many queries as keys). Wherever cuDNN cannot be told what is
visible, a boolean mask says it; JAX turns that into a number added to the scores (-45875 in
float16), which hides a key as long as scores stay within about 20000 of zero.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.nn import dot_product_attention

from assay.attention.sequence._visibility import visibility_mask

if TYPE_CHECKING:
    from assay.host import Host
    from assay.workloads.spec import WorkloadSpec

FRAMEWORK = "jax"
LAYOUT = "BSHD"
KERNELS = {"cuda": "cudnn"}
ACCEPTS = ("mask", "lengths", "window")
DETERMINISTIC_BACKWARD = False  # dq is added up atomically unless XLA is told otherwise


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
) -> jax.Array:
    """q [B, M, H, D], k and v [B, N, G, D] -> [B, M, H, D].

    `mask` is boolean [B or 1, H or 1, M, N], True where a query may look; `lengths` int32 [B].
    """
    return _attention(
        q, k, v, mask, lengths, causal=bool(causal), scale=float(scale), window=window
    )


def supports(spec: "WorkloadSpec", host: "Host") -> str | None:
    """Refuse what JAX's own check and cuDNN refuse, in words."""
    if not host.accelerators or host.accelerators[0].kind != "cuda":
        return "cuDNN needs an NVIDIA GPU"
    if spec.dtype == "float32":
        return "cuDNN's fused attention takes float16 and bfloat16, not float32"
    try:
        device = jax.devices("gpu")[host.accelerators[0].index]
    except RuntimeError as error:
        return f"this JAX sees no GPU: {error}"
    widest = 256 if float(device.compute_capability) >= 9.0 else 128
    if spec.head_dim % 8 or spec.head_dim > widest:
        return f"head_dim {spec.head_dim} is not a multiple of 8 up to {widest}, cuDNN's limit here"
    return None


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
) -> jax.Array:
    queries, keys = q.shape[1], k.shape[1]
    masked = queries - keys if causal else 0
    if masked > 0:  # the first queries see nothing; the others are a square
        rest = mask if mask is None else mask[:, :, masked:]
        call = partial(_attention, causal=True, scale=scale, window=window)
        zeros = jnp.zeros_like(q[:, :masked])
        return jnp.concatenate((zeros, call(q[:, masked:], k, v, rest, lengths)), axis=1)
    if causal and window is not None and window >= keys:
        window = None
    causal = causal and queries > 1  # a single query stands at the last key
    native = mask is None and (queries == keys or not causal)
    if native and window is None:
        return _native(q, k, v, lengths, causal=causal, scale=scale, window=None)
    if native and causal and lengths is None:
        return _native(q, k, v, None, causal=True, scale=scale, window=window)
    limits = {"causal": causal, "window": window, "lengths": lengths, "mask": mask}
    visible = visibility_mask(queries, keys, arange=jnp.arange, **limits)
    return _masked(q, k, v, visible, scale=scale)


def _native(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    lengths: jax.Array | None,
    *,
    causal: bool,
    scale: float,
    window: int | None,
) -> jax.Array:
    """Attention with masks that cuDNN has itself; `causal` only for a square."""
    key_lengths = None
    if lengths is not None:
        key_lengths = jnp.maximum(lengths, 1)  # a length of zero is undefined there
        exists = jnp.arange(k.shape[1])[:, None, None] < lengths[:, None, None, None]
        k, v = (jnp.where(exists, array, 0) for array in (k, v))  # so their gradients are zero
    elif k.shape[1] % 2 and not causal:
        key_lengths = jnp.full(k.shape[:1], k.shape[1], jnp.int32)  # hides the key that is padding
    limits: dict[str, Any] = {"is_causal": causal, "key_value_seq_lengths": key_lengths}
    if window is not None:
        limits["local_window_size"] = (window - 1, 0)
    out = _call(q, k, v, scale=scale, **limits)
    return out if lengths is None else jnp.where(lengths[:, None, None, None] > 0, out, 0)


def _masked(
    q: jax.Array, k: jax.Array, v: jax.Array, visible: jax.Array, *, scale: float
) -> jax.Array:
    """Attention with a boolean mask [B or 1, H or 1, M, N].

    A row that sees nothing is shown everything and its result is dropped: no row is 0/0.
    """
    sees_any = visible.any(axis=-1, keepdims=True)
    shown = _to_even(_to_even(visible | ~sees_any, 2, fill=True), 3, fill=False)
    out = _call(q, k, v, scale=scale, mask=shown)
    return jnp.where(jnp.swapaxes(sees_any, 1, 2), out, 0)


def _call(q: jax.Array, k: jax.Array, v: jax.Array, **settings: Any) -> jax.Array:
    """JAX's call, whose backward takes even lengths only; what is padded away gets no gradient."""
    even = (_to_even(array, 1, fill=0) for array in (q, k, v))
    out = dot_product_attention(*even, implementation="cudnn", **settings)
    return out[:, : q.shape[1]]


def _to_even(array: jax.Array, axis: int, *, fill: bool | int) -> jax.Array:
    if array.shape[axis] % 2 == 0:
        return array
    return jnp.pad(array, [(0, int(i == axis)) for i in range(array.ndim)], constant_values=fill)
