"""Statistics of a tensor's finite values, summed in float64 block by block."""

from collections.abc import Iterator

import numpy as np

from assay.captures.manifest import Statistics
from assay.captures.tensor import FLOATS, Tensor

OUTLIERS = 8  # channels that are named
_BLOCK = 1 << 18  # values at a time, so that a long tensor needs little memory beside itself


def statistics(tensor: Tensor, *, heads_axis: int | None = None) -> Statistics:
    """Return the statistics of one tensor.

    A channel is a place on the last axis, or head * dim + place where an axis holds heads.
    """
    count = nonfinite = zeros = 0
    mean, squares = 0.0, 0.0
    low, high = np.inf, -np.inf
    for values in _blocks(tensor):
        finite = values[np.isfinite(values)]
        nonfinite += values.size - finite.size
        if not finite.size:
            continue
        zeros += int(finite.size - np.count_nonzero(finite))
        low, high = min(low, float(finite.min())), max(high, float(finite.max()))
        # Means and sums of squares of two sets joined: Chan, Golub and LeVeque 1979, eq. 1.5.
        block_mean = float(finite.mean())
        distance, total = block_mean - mean, count + finite.size
        squares += float(np.square(finite - block_mean).sum())
        squares += distance * distance * count * finite.size / total
        mean += distance * finite.size / total
        count = total
    known = count > 0
    return Statistics(
        count=count + nonfinite,
        nonfinite=nonfinite,
        zeros=zeros,
        minimum=low if known else None,
        maximum=high if known else None,
        mean=mean if known else None,
        std=float(np.sqrt(squares / count)) if known else None,
        absmax=max(abs(low), abs(high)) if known else None,
        outliers=_outliers(tensor, heads_axis) if known else [],
    )


def _blocks(tensor: Tensor) -> Iterator[np.ndarray]:
    """Yield all values in float64, a block at a time."""
    flat = tensor.bits.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = Tensor(tensor.dtype, flat[start : start + _BLOCK])
        yield block.numbers().astype(np.float64)


def _outliers(tensor: Tensor, heads_axis: int | None) -> list[tuple[int, float]]:
    """Return the channels with the largest absolute values, largest first, with those values."""
    if tensor.dtype not in FLOATS or len(tensor.shape) < 2 or not tensor.nbytes:
        return []
    bits = tensor.bits
    heads = 1
    if heads_axis is not None:
        heads = bits.shape[heads_axis]
        bits = np.moveaxis(bits, heads_axis, -2)
    channels = heads * bits.shape[-1]
    rows = bits.reshape(-1, channels)
    largest = np.zeros(channels)
    step = max(1, _BLOCK // channels)
    for start in range(0, len(rows), step):
        sizes = np.abs(Tensor(tensor.dtype, rows[start : start + step]).numbers())
        sizes[~np.isfinite(sizes)] = 0
        largest = np.maximum(largest, sizes.max(axis=0))
    order = np.argsort(-largest, kind="stable")[:OUTLIERS]
    return [(int(channel), float(largest[channel])) for channel in order]
