"""Counts of numbers in fixed bins, so that the histograms of many records can be added up."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# log2 of the size: one bin for each power of two, from below what float16 tells from zero (2**-24)
# to above what it holds (2**16). Zeros are in no bin.
LOWEST_POWER, HIGHEST_POWER = -32, 20
# Values in standard deviations from the mean, half of one to a bin.
FARTHEST, STEPS_PER_STD = 10, 2
_BLOCK = 1 << 20  # numbers at a time, so that a long tensor needs little memory beside itself


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """counts[i] are the numbers from low + i * width to the next; the ends have those beyond."""

    low: float
    width: float
    counts: tuple[int, ...]
    below: int
    above: int

    @property
    def total(self) -> int:
        return sum(self.counts) + self.below + self.above

    def plus(self, other: "Histogram") -> "Histogram":
        return Histogram(
            low=self.low,
            width=self.width,
            counts=tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
            below=self.below + other.below,
            above=self.above + other.above,
        )


def magnitudes(values: np.ndarray) -> Histogram:
    """Of log2 of the size of each finite number that is not zero."""

    def bins_of(block: np.ndarray) -> np.ndarray:
        _, exponents = np.frexp(block[block != 0])  # a size is m * 2**e with m from 0.5 below 1
        return exponents - 1 - LOWEST_POWER

    return _counted(values, bins_of, LOWEST_POWER, 1.0, HIGHEST_POWER - LOWEST_POWER)


def deviations(values: np.ndarray, *, mean: float, std: float) -> Histogram | None:
    """Of the finite numbers, in standard deviations from the mean; None where all are equal."""
    if not std > 0:
        return None
    bins = 2 * FARTHEST * STEPS_PER_STD

    def bins_of(block: np.ndarray) -> np.ndarray:
        return np.floor((block - block.dtype.type(mean)) * (STEPS_PER_STD / std)) + bins // 2

    return _counted(values, bins_of, -FARTHEST, 1 / STEPS_PER_STD, bins)


def _counted(
    values: np.ndarray,
    bins_of: Callable[[np.ndarray], np.ndarray],
    low: float,
    width: float,
    bins: int,
) -> Histogram:
    """The finite numbers by the bins that `bins_of` gives, a stretch at a time."""
    found = np.zeros(bins + 2, dtype=np.int64)  # one more at each end takes what is beyond
    flat = values.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        index = np.clip(bins_of(block[np.isfinite(block)]) + 1, 0, bins + 1).astype(np.int32)
        found += np.bincount(index, minlength=bins + 2)
    below, *counts, above = (int(n) for n in found)
    return Histogram(low=low, width=width, counts=tuple(counts), below=below, above=above)
