"""Distribution of a tensor's numbers: histograms with fixed bins, and outlier channels.

Axes: B batch, H heads, S positions, D channels. A few outlier channels of k decide the scale of a
quantised cache, so each is compared with the other channels of its head.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# log2 of the size: one bin for each power of two, from below what float16 tells from zero (2**-24)
# to above what it holds (2**16). Zeros are in no bin.
LOWEST_POWER, HIGHEST_POWER = -32, 20
# Values in standard deviations from the mean, half of one to a bin.
FARTHEST, STEPS_PER_STD = 10, 2
_BLOCK = 1 << 20  # numbers at a time, so that a long tensor needs little memory beside itself

# A channel is an outlier where its largest size is this many times that of its head's median
# channel. Normal numbers come nowhere near it; over a few tokens real channels often do.
OUTLIER = 5.0
FEWEST_TOKENS = 16


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """counts[i] numbers lie from low + i * width to the next bin; `below` and `above` are beyond
    the ends. Histograms of the same bins can be added up."""

    low: float
    width: float
    counts: tuple[int, ...]
    below: int
    above: int

    @property
    def total(self) -> int:
        return sum(self.counts) + self.below + self.above

    @property
    def shares(self) -> tuple[float, ...]:
        """Counts over the total, of which there must be some."""
        return tuple(count / self.total for count in self.counts)

    def plus(self, other: "Histogram") -> "Histogram":
        return Histogram(
            low=self.low,
            width=self.width,
            counts=tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
            below=self.below + other.below,
            above=self.above + other.above,
        )


@dataclass(frozen=True, kw_only=True)
class OutlierChannel:
    """`times` the largest size of the head's median channel."""

    head: int
    channel: int
    absmax: float
    times: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Channels:
    """Largest size in each channel, and the outliers, the farthest first."""

    absmax_HD: np.ndarray
    outliers: tuple[OutlierChannel, ...]
    why: str | None = None  # reason why outliers are not reported

    @property
    def times_HD(self) -> np.ndarray:
        """Largest size of each channel over that of its head's median channel; NaN where that is
        zero."""
        median = np.median(self.absmax_HD, axis=1, keepdims=True)
        unknown = np.full_like(self.absmax_HD, np.nan)
        return np.divide(self.absmax_HD, median, out=unknown, where=median > 0)


def magnitudes(values: np.ndarray) -> Histogram:
    """Histogram of log2 of the size of each finite number that is not zero."""

    def bins_of(block: np.ndarray) -> np.ndarray:
        _, exponents = np.frexp(block[block != 0])  # a size is m * 2**e with m from 0.5 below 1
        return exponents - 1 - LOWEST_POWER

    return _histogram(values, bins_of, LOWEST_POWER, 1.0, HIGHEST_POWER - LOWEST_POWER)


def deviations(values: np.ndarray, *, mean: float, std: float) -> Histogram | None:
    """Histogram of the finite numbers in standard deviations from the mean; None where all are
    equal."""
    if not std > 0:
        return None
    bins = 2 * FARTHEST * STEPS_PER_STD

    def bins_of(block: np.ndarray) -> np.ndarray:
        return np.floor((block - block.dtype.type(mean)) * (STEPS_PER_STD / std)) + bins // 2

    return _histogram(values, bins_of, -FARTHEST, 1 / STEPS_PER_STD, bins)


def channels(values_BHSD: np.ndarray) -> Channels:
    """Channels of one tensor; numbers that are not finite are passed over."""
    finite = np.isfinite(values_BHSD)
    known = values_BHSD if finite.all() else np.where(finite, values_BHSD, 0)
    highest = known.max(axis=(0, 2), initial=0.0)
    absmax = np.maximum(highest, -known.min(axis=(0, 2), initial=0.0)).astype(np.float64)
    tokens = values_BHSD.shape[0] * values_BHSD.shape[2]
    return channels_from_absmax(absmax, tokens=tokens)


def channels_from_absmax(absmax_HD: np.ndarray, *, tokens: int) -> Channels:
    """Channels given the largest size in each, taken over so many tokens."""
    if tokens < FEWEST_TOKENS:
        why = f"{tokens} tokens are too few to tell an outlier, {FEWEST_TOKENS} are needed"
        return Channels(absmax_HD=absmax_HD, outliers=(), why=why)
    times = Channels(absmax_HD=absmax_HD, outliers=()).times_HD
    outliers = [
        OutlierChannel(
            head=int(head),
            channel=int(channel),
            absmax=float(absmax_HD[head, channel]),
            times=float(times[head, channel]),
        )
        for head, channel in zip(*np.nonzero(times >= OUTLIER), strict=True)
    ]
    outliers.sort(key=lambda outlier: -outlier.times)
    return Channels(absmax_HD=absmax_HD, outliers=tuple(outliers))


def _histogram(
    values: np.ndarray,
    bins_of: Callable[[np.ndarray], np.ndarray],
    low: float,
    width: float,
    bins: int,
) -> Histogram:
    """Count the finite numbers by the bins that `bins_of` gives, a block at a time."""
    totals = np.zeros(bins + 2, dtype=np.int64)  # one more at each end for what is beyond
    flat = values.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        index = np.clip(bins_of(block[np.isfinite(block)]) + 1, 0, bins + 1).astype(np.int32)
        totals += np.bincount(index, minlength=bins + 2)
    below, *counts, above = (int(n) for n in totals)
    return Histogram(low=low, width=width, counts=tuple(counts), below=below, above=above)
