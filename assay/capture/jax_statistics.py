"""Statistics of tensors, computed where they lie: a few numbers leave the device, no tensor does.

The same quantities as assay.workloads.statistics, but summed in float32.
"""

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from assay.workloads.manifest import Statistics
from assay.workloads.statistics import OUTLIERS
from assay.workloads.tensor import FLOATS

_HEADS_AXIS = {"q": 1, "k": 1, "v": 1, "out": 1, "cache.k": 2, "cache.v": 2}


def measured(name: str, x: jax.Array) -> dict[str, jax.Array]:
    """Of one tensor: counts int32 [2], moments float32 [4], and its largest channels."""
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
    found = {
        "counts": jnp.stack([count, (finite & (values == 0)).sum()]).astype(jnp.int32),
        "moments": jnp.stack(moments),
    }
    if x.ndim >= 2 and x.size and x.dtype.name in FLOATS:
        sizes, channels = jax.lax.top_k(*_channels(name, jnp.abs(known)))
        found |= {"sizes": sizes, "channels": channels.astype(jnp.int32)}
    return found


def told(shape: tuple[int, ...], found: Mapping[str, np.ndarray]) -> Statistics:
    """The statistics that `measured` put into arrays."""
    size = math.prod(shape)
    count, zeros = (int(n) for n in found["counts"])
    low, high, mean, std = (float(n) for n in found["moments"])
    known = count > 0
    channels = [int(n) for n in found.get("channels", ())]
    sizes = [float(n) for n in found.get("sizes", ())]
    return Statistics(
        count=size,
        nonfinite=size - count,
        zeros=zeros,
        minimum=low if known else None,
        maximum=high if known else None,
        mean=mean if known else None,
        std=std if known else None,
        absmax=max(abs(low), abs(high)) if known else None,
        outliers=list(zip(channels, sizes, strict=True)) if known else [],
    )


def _channels(name: str, sizes: jax.Array) -> tuple[jax.Array, int]:
    """The largest size in each channel, and how many of the channels are named."""
    heads = _HEADS_AXIS.get(name) if sizes.ndim == 4 else None
    if heads is not None:
        sizes = jnp.moveaxis(sizes, heads, -2)
        sizes = sizes.reshape(*sizes.shape[:-2], -1)
    largest = sizes.reshape(-1, sizes.shape[-1]).max(axis=0)
    return largest, min(OUTLIERS, largest.size)
