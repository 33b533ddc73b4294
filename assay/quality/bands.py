"""Bands of damage, by thresholds that stand here alone and are changed for no result.

They are those of the public study of FP8 caches that found both models that bear 8-bit keys and
models that do not: an increase of the loss, a factor on perplexity, and how often the most likely
token stays the same. A cache has a band where all of its 95 % intervals lies in it.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Literal

from assay.laws.quantiles import student_975

Band = Literal["tolerant", "material", "catastrophic"]

TOLERANT_INCREASE = 0.005  # of the mean negative log-likelihood
TOLERANT_AGREEMENT = 0.98  # of the most likely token
CATASTROPHIC_INCREASE = 0.05
CATASTROPHIC_AGREEMENT = 0.80
CATASTROPHIC_PERPLEXITY = 2.0  # times that of the dense cache
_MOST_WINDOWS = 10**7  # beyond, a mean lies on a threshold


def band_of(*, dense_nll: float, nll: float, agreement: float) -> Band:
    """Return the band of a cache from mean NLL in nats and the share of equal choices."""
    increase = (nll - dense_nll) / dense_nll
    if (
        increase > CATASTROPHIC_INCREASE
        or agreement < CATASTROPHIC_AGREEMENT
        or nll - dense_nll > math.log(CATASTROPHIC_PERPLEXITY)
    ):
        return "catastrophic"
    if increase <= TOLERANT_INCREASE and agreement >= TOLERANT_AGREEMENT:
        return "tolerant"
    return "material"


def band_of_windows(
    dense_nll: Sequence[float], nll: Sequence[float], agreement: Sequence[float]
) -> tuple[Band | None, int | None]:
    """Return the band of a cache from the means of each window, or None and how many more windows
    would tell it if they spread like these; None for both where no number would."""
    pairs = [ours - dense for ours, dense in zip(nll, dense_nll, strict=True)]
    dense, mean, agrees = fmean(dense_nll), fmean(pairs), fmean(agreement)
    if not any(pairs) and agrees == 1:
        return "tolerant", 0
    if not math.isfinite(mean):
        return "catastrophic", 0
    if len(pairs) < 2:
        return None, None
    spreads = stdev(pairs), stdev(agreement)

    def band(windows: int) -> Band | None:
        """The band with so many windows, the same at both ends of the intervals."""
        wide = student_975(windows - 1) / math.sqrt(windows)
        least, most = (
            band_of(
                dense_nll=dense,
                nll=dense + mean + sign * wide * spreads[0],
                agreement=agrees - sign * wide * spreads[1],
            )
            for sign in (-1, 1)
        )
        return least if least == most else None

    windows = len(pairs)
    while band(windows) is None:
        windows += max(1, windows // 16)
        if windows > _MOST_WINDOWS:
            return None, None
    more = windows - len(pairs)
    return (None, more) if more else (band(windows), 0)
