"""Statistics of raw samples, computed on reading."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache


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


def described(samples: Sequence[float]) -> dict[str, float | int | None]:
    """All that is said of samples in a file; what one sample does not have is None."""
    several = len(samples) > 1
    fives = statistics.quantiles(samples, n=20, method="inclusive") if several else []
    return {
        "n": len(samples),
        "median": statistics.median(samples),
        "mean": statistics.fmean(samples),
        "std": statistics.stdev(samples) if several else None,
        "min": min(samples),
        "max": max(samples),
        "p5": fives[0] if several else None,
        "p25": fives[4] if several else None,
        "p75": fives[14] if several else None,
        "p95": fives[18] if several else None,
    }


def interval_of_median(values: Sequence[float]) -> tuple[float, float]:
    """A 95 % bootstrap interval of the median (percentile method, Efron 1979), seeded."""
    return _interval(tuple(values))


@lru_cache(maxsize=1 << 14)  # a ratio stands in tables, charts and files
def _interval(values: tuple[float, ...]) -> tuple[float, float]:
    import numpy as np

    from assay.laws.pairs import interval, resampled_medians

    return interval(resampled_medians([np.asarray(values)]))
