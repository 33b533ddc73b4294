"""Statistics of raw samples, computed on reading."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_RESAMPLES = 2000
_SEED = 0
_TAIL_PERCENT = 2.5  # on either side of a 95 % interval


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The middle of some samples and the quartiles around it."""

    median: float
    low: float
    high: float
    count: int


def summarise(samples: Sequence[float]) -> Summary:
    """Median and quartiles of at least one sample."""
    if len(samples) == 1:
        return Summary(median=samples[0], low=samples[0], high=samples[0], count=1)
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Summary(median=median, low=low, high=high, count=len(samples))


def interval_of_median(values: Sequence[float]) -> tuple[float, float]:
    """A 95 % bootstrap interval of the median (percentile method, Efron 1979), seeded."""
    import numpy as np

    drawn = np.random.default_rng(_SEED).choice(np.asarray(values), size=(_RESAMPLES, len(values)))
    low, high = np.percentile(np.median(drawn, axis=1), (_TAIL_PERCENT, 100 - _TAIL_PERCENT))
    return float(low), float(high)
