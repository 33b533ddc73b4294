"""How a metric grows with the length: the exponent a in value = c * S^a, with its interval.

Terms of lower order bend the curve where sequences are short, so only the upper lengths are
fitted: those within a factor of eight of the longest, or the three longest where that leaves
fewer. `terms` says, for the same lengths, how much of the longest's value each power makes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.laws.series import Series, Setting, series
from assay.laws.student import quantile_975
from assay.laws.terms import Terms, fit
from assay.records.schema import Record

METRICS = ("forward_peak_bytes", "training_peak_bytes", "saved_bytes", "latency_ms")
FEWEST = 3
_UPPER_FACTOR = 8


@dataclass(frozen=True, kw_only=True)
class Exponent:
    """The growth of one metric of one subject; `reason` says why `value` is None."""

    setting: Setting
    subject: str
    metric: str
    lengths: tuple[int, ...]  # those fitted
    value: float | None
    low: float | None = None
    high: float | None = None
    terms: Terms | None = None
    reason: str | None = None

    @property
    def shares(self) -> dict[str, float]:
        """What part of the value at the longest length each power makes; empty without a fit."""
        return self.terms.shares(self.lengths[-1]) if self.terms else {}


def exponents(records: Sequence[Record], *, metrics: Sequence[str] = METRICS) -> list[Exponent]:
    """An exponent, or the reason why there is none, for every curve of these metrics."""
    return [_exponent(curve) for curve in series(records, metrics)]


def upper(points: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """The points whose lengths are fitted; they ascend."""
    near = [point for point in points if point[0] * _UPPER_FACTOR >= points[-1][0]]
    return tuple(near if len(near) >= FEWEST else points[-FEWEST:])


def _exponent(curve: Series) -> Exponent:
    points = upper(curve.points)
    told = {
        "setting": curve.setting,
        "subject": curve.subject,
        "metric": curve.metric,
        "lengths": tuple(length for length, _ in points),
    }
    if len(points) < FEWEST:
        count = f"{len(points)} length" + ("s" if len(points) > 1 else "")
        return Exponent(**told, value=None, reason=f"{count} measured; wanted {FEWEST} or more")
    lowest = min(value for _, value in points)
    if lowest <= 0:
        reason = f"a value of {lowest:g} has no logarithm"
        return Exponent(**told, value=None, reason=reason)
    value, error = _slope(points)
    return Exponent(**told, value=value, low=value - error, high=value + error, terms=fit(points))


def _slope(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Slope of the logarithms by least squares, and half of its 95 % interval."""
    x, y = np.log(np.array(points, dtype=float)).T
    around = x - x.mean()
    slope = float(around @ y / (around @ around))
    residual = y - y.mean() - slope * around
    freedom = len(points) - 2
    variance = float(residual @ residual) / freedom / float(around @ around)
    return slope, quantile_975(freedom) * variance**0.5
