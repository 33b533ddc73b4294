"""Counts of numbers in fixed bins, so that the histograms of many records can be added up."""

from dataclasses import dataclass

import numpy as np

# log2 of the size: one bin for each power of two, from below what float16 tells from zero (2**-24)
# to above what it holds (2**16). Zeros are in no bin.
LOWEST_POWER, HIGHEST_POWER = -32, 20
# Values in standard deviations from the mean, half of one to a bin.
FARTHEST, STEPS_PER_STD = 10, 2


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
    known = values[np.isfinite(values) & (values != 0)]
    _, exponents = np.frexp(known)  # a size is m * 2**e with m from 0.5 below 1
    return _counted(exponents - 1 - LOWEST_POWER, LOWEST_POWER, 1.0, HIGHEST_POWER - LOWEST_POWER)


def deviations(values: np.ndarray, *, mean: float, std: float) -> Histogram | None:
    """Of the finite numbers, in standard deviations from the mean; None where all are equal."""
    if not std > 0:
        return None
    known = values[np.isfinite(values)]
    places = np.floor((known - values.dtype.type(mean)) * (STEPS_PER_STD / std))
    bins = 2 * FARTHEST * STEPS_PER_STD
    return _counted(places + bins // 2, -FARTHEST, 1 / STEPS_PER_STD, bins)


def _counted(bin_of_each: np.ndarray, low: float, width: float, bins: int) -> Histogram:
    # One bin more at each end takes what is beyond.
    index = np.clip(bin_of_each + 1, 0, bins + 1).astype(np.int32)
    found = [int(n) for n in np.bincount(index, minlength=bins + 2)]
    return Histogram(
        low=low, width=width, counts=tuple(found[1:-1]), below=found[0], above=found[-1]
    )
