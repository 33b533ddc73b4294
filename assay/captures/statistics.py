"""Statistics of a tensor's finite values, summed in float64 block by block."""

import math
from collections.abc import Iterator

import numpy as np

from assay.captures.manifest import Statistics
from assay.captures.tensor import FLOATS, Tensor

_OUTLIERS = 8  # channels that are named
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
    std = math.sqrt(squares / count) if count else 0.0
    outliers = _outliers(tensor, heads_axis) if count else []
    return finished(count, nonfinite, zeros, low, high, mean, std, outliers)


def finished(
    finite: int,
    nonfinite: int,
    zeros: int,
    low: float,
    high: float,
    mean: float,
    std: float,
    outliers: list[tuple[int, float]],
) -> Statistics:
    """Return the statistics of so many finite values; without any, nothing else is known."""
    known = finite > 0
    return Statistics(
        count=finite + nonfinite,
        nonfinite=nonfinite,
        zeros=zeros,
        minimum=low if known else None,
        maximum=high if known else None,
        mean=mean if known and math.isfinite(mean) else None,
        std=std if known and math.isfinite(std) else None,
        absmax=max(abs(low), abs(high)) if known else None,
        outliers=outliers if known else [],
    )


def largest_channels(maxima: np.ndarray) -> list[list[tuple[int, float]]]:
    """Return the channels with the largest of each row of `maxima` [tensors, channels], largest
    first and of equal ones the first, with those values."""
    few = min(_OUTLIERS, maxima.shape[1])
    if not few:
        return [[] for _ in maxima]
    bounds = np.partition(maxima, -few, axis=1)[:, -few]
    channels = []
    for row, bound in zip(maxima, bounds, strict=True):
        candidates = np.flatnonzero(row >= bound)
        largest = candidates[np.argsort(-row[candidates], kind="stable")[:few]]
        channels.append(list(zip(largest.tolist(), row[largest].tolist(), strict=True)))
    return channels


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
    return largest_channels(largest[None])[0]
