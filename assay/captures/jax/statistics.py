"""Statistics of tensors, computed where they lie: a short vector leaves the device, no tensor does.

The same quantities as assay.captures.statistics, but summed in float32. All tensors of a call
share one vector, since each array that goes to the host costs as much as a small kernel.
"""

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from assay.captures.manifest import LAYOUTS, Statistics, TensorEntry, heads_axis
from assay.captures.statistics import finished, largest_channels
from assay.captures.tensor import FLOATS

_COUNTS, _MOMENTS = 2, 4  # finite values, zeros; minimum, maximum, mean, standard deviation


def pack(tensors: Mapping[str, jax.Array]) -> jax.Array:
    """Statistics of all tensors as int32 [n], in the order of their names; floats as their bits."""
    parts = [_part(name, tensors[name]) for name in sorted(tensors)]
    return jnp.concatenate(parts) if parts else jnp.zeros(0, jnp.int32)


def unpack(entries: Mapping[str, TensorEntry], vector: np.ndarray) -> dict[str, Statistics]:
    """Statistics out of a vector of `pack`, of tensors with these dtypes and shapes."""
    statistics, start = {}, 0
    for name, entry in sorted(entries.items()):
        channels = _channels(name, entry.dtype, entry.shape)
        end = start + _COUNTS + _MOMENTS + channels
        statistics[name] = _statistics(math.prod(entry.shape), vector[start:end])
        start = end
    return statistics


def _part(name: str, x: jax.Array) -> jax.Array:
    """int32 [_COUNTS + _MOMENTS + channels] of one tensor."""
    values = x.astype(jnp.float32)
    finite = jnp.isfinite(values)
    count = finite.sum()
    known = jnp.where(finite, values, 0)
    mean = known.sum() / jnp.maximum(count, 1)
    spread = jnp.where(finite, values - mean, 0)
    moments = [
        jnp.where(finite, values, jnp.inf).min(initial=jnp.inf),
        jnp.where(finite, values, -jnp.inf).max(initial=-jnp.inf),
        mean,
        jnp.sqrt(jnp.square(spread).sum() / jnp.maximum(count, 1)),
    ]
    floats = jnp.stack(moments)
    if _channels(name, x.dtype.name, x.shape):
        floats = jnp.concatenate([floats, _channel_maxima(name, jnp.abs(known))])
    counts = jnp.stack([count, (finite & (values == 0)).sum()]).astype(jnp.int32)
    return jnp.concatenate([counts, jax.lax.bitcast_convert_type(floats, jnp.int32)])


def _channel_maxima(name: str, sizes: jax.Array) -> jax.Array:
    """[channels]: the largest absolute value of each."""
    heads = _heads_axis(name, sizes.shape)
    if heads is not None:
        sizes = jnp.moveaxis(sizes, heads, -2)
        sizes = sizes.reshape(*sizes.shape[:-2], -1)
    return sizes.reshape(-1, sizes.shape[-1]).max(axis=0)


def _channels(name: str, dtype: str, shape: tuple[int, ...]) -> int:
    """Channels of a tensor whose maxima are kept; 0 where it is no tensor of floats."""
    if len(shape) < 2 or dtype not in FLOATS or not math.prod(shape):
        return 0
    heads = _heads_axis(name, shape)
    return shape[-1] * (shape[heads] if heads is not None else 1)


def _heads_axis(name: str, shape: tuple[int, ...]) -> int | None:
    return heads_axis(name) if len(LAYOUTS.get(name, "")) == len(shape) == 4 else None


def _statistics(size: int, part: np.ndarray) -> Statistics:
    count, zeros = (int(n) for n in part[:_COUNTS])
    floats = part[_COUNTS:].view(np.float32)
    low, high, mean, std = (float(n) for n in floats[:_MOMENTS])
    maxima = floats[_MOMENTS:]
    outliers = largest_channels(maxima[None])[0]
    return finished(count, size - count, zeros, low, high, mean, std, outliers)
