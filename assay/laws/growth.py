"""Growth of a metric with the length: an exponent, and the polynomial whose terms make it up.

The exponent a of value = c * S^a is fitted to the logarithms. Terms of lower order bend the curve
where sequences are short, so only the upper lengths are fitted: those within a factor of eight of
the longest, or the three longest where that leaves fewer.

The polynomial c2 * S^2 + c1 * S + c0 has no negative term and is fitted by least squares on
relative errors. The best fit without negative terms is the plain least-squares fit of its own terms
(the Karush-Kuhn-Tucker conditions), and three terms have only seven subsets, so all are tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from assay.laws.curves import CurveSetting, LengthCurve, curves
from assay.laws.quantiles import student_975
from assay.records.schema import Record

METRICS = ("forward_peak_bytes", "training_peak_bytes", "saved_bytes", "latency_ms")
FEWEST_LENGTHS = 3
_UPPER_FACTOR = 8
_WIDEST_INTERVAL = 1.0  # of an exponent: beyond it, linear is not told from quadratic
_TERM_NAMES = {2: "quadratic", 1: "linear", 0: "constant"}  # by power, as they are tried
# A term must shrink the residual by more than rounding does.
_ROUNDING = 1e-12

Points = Sequence[tuple[int, float]]  # length and value, ascending


@dataclass(frozen=True, kw_only=True)
class Polynomial:
    """Coefficients by power of the length, and their uncertainty.

    `spread` is the relative standard deviation of a point; None where there are as many terms as
    points. `inverse` belongs to the terms that are present, [terms, terms].
    """

    coefficients: dict[int, float]
    spread: float | None
    freedom: int
    inverse: tuple[tuple[float, ...], ...]

    def at(self, length: float) -> float:
        return sum(c * length**power for power, c in self.coefficients.items())

    def slope(self, length: float) -> float:
        """Derivative in the length."""
        return sum(p * c * length ** (p - 1) for p, c in self.coefficients.items() if p)

    def shares(self, length: float) -> dict[str, float]:
        """Share of the value at a length that each term makes, by its name."""
        whole = self.at(length)
        return {_TERM_NAMES[p]: c * length**p / whole for p, c in self.coefficients.items()}

    def error(self, length: float) -> float | None:
        """Half of the 95 % interval of a new value at a length; None where it is not known."""
        if self.spread is None:
            return None
        row = np.array([float(length) ** power for power in self.coefficients])
        of_curve = float(row @ np.array(self.inverse) @ row)
        deviation = self.spread * (of_curve + self.at(length) ** 2) ** 0.5
        return student_975(self.freedom) * deviation


@dataclass(frozen=True, kw_only=True)
class Exponent:
    """Growth of one metric of one subject; `reason` explains why `value` is None."""

    setting: CurveSetting
    subject: str
    metric: str
    lengths: tuple[int, ...]  # those fitted
    value: float | None
    low: float | None = None
    high: float | None = None
    terms: Polynomial | None = None
    reason: str | None = None

    @property
    def is_certain(self) -> bool:
        """True where the interval is narrow enough to call the exponent a law."""
        known = self.low is not None and self.high is not None
        return known and self.high - self.low <= _WIDEST_INTERVAL

    @property
    def shares(self) -> dict[str, float]:
        """Share of the value at the longest length that each power makes; empty without a fit."""
        return self.terms.shares(self.lengths[-1]) if self.terms else {}


def exponents(records: Sequence[Record], *, metrics: Sequence[str] = METRICS) -> list[Exponent]:
    """An exponent, or the reason why there is none, for every curve of these metrics."""
    return [_exponent(curve) for curve in curves(records, metrics)]


def upper(points: Points) -> Points:
    """Those of ascending points whose lengths are fitted."""
    near = [point for point in points if point[0] * _UPPER_FACTOR >= points[-1][0]]
    return tuple(near if len(near) >= FEWEST_LENGTHS else points[-FEWEST_LENGTHS:])


def fit_polynomial(points: Points) -> Polynomial | None:
    """The nonnegative fit of at least three positive points; None for fewer or others."""
    if len(points) < FEWEST_LENGTHS or min(value for _, value in points) <= 0:
        return None
    lengths, values = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    best: _LeastSquares | None = None
    for count in range(1, len(_TERM_NAMES) + 1):
        for powers in combinations(_TERM_NAMES, count):
            fitted = _LeastSquares(lengths, values, powers)
            if (fitted.coefficients < 0).any():
                continue
            if best is None or fitted.residual < best.residual * (1 - 1e-6) - _ROUNDING:
                best = fitted
    assert best, "a constant term alone always fits"
    return best.polynomial()


def _exponent(curve: LengthCurve) -> Exponent:
    points = upper(curve.points)
    known = {
        "setting": curve.setting,
        "subject": curve.subject,
        "metric": curve.metric,
        "lengths": tuple(length for length, _ in points),
    }
    if len(points) < FEWEST_LENGTHS:
        count = f"{len(points)} length" + ("s" if len(points) > 1 else "")
        reason = f"{count} measured; wanted {FEWEST_LENGTHS} or more"
        return Exponent(**known, value=None, reason=reason)
    lowest = min(value for _, value in points)
    if lowest <= 0:
        return Exponent(**known, value=None, reason=f"a value of {lowest:g} has no logarithm")
    slope, error = _slope(points)
    terms = fit_polynomial(points)
    return Exponent(**known, value=slope, low=slope - error, high=slope + error, terms=terms)


def _slope(points: Points) -> tuple[float, float]:
    """Slope of the logarithms by least squares, and half of its 95 % interval."""
    x, y = np.log(np.array(points, dtype=float)).T
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    residual = y - y.mean() - slope * centred
    freedom = len(points) - 2
    variance = float(residual @ residual) / freedom / float(centred @ centred)
    return slope, student_975(freedom) * variance**0.5


class _LeastSquares:
    """Coefficients of some powers and the sum of their squared relative errors."""

    def __init__(self, lengths: np.ndarray, values: np.ndarray, powers: tuple[int, ...]) -> None:
        self.powers = powers
        design = np.stack([lengths**power / values for power in powers], axis=1)  # [points, terms]
        self.scale = np.linalg.norm(design, axis=0)
        self.scaled = design / self.scale
        solution, *_ = np.linalg.lstsq(self.scaled, np.ones(len(values)), rcond=None)
        self.coefficients = solution / self.scale
        self.residual = float(np.sum((design @ self.coefficients - 1) ** 2))

    def polynomial(self) -> Polynomial:
        inverse = np.linalg.pinv(self.scaled.T @ self.scaled) / np.outer(self.scale, self.scale)
        freedom = len(self.scaled) - len(self.powers)
        return Polynomial(
            coefficients=dict(zip(self.powers, map(float, self.coefficients), strict=True)),
            spread=(self.residual / freedom) ** 0.5 if freedom else None,
            freedom=freedom,
            inverse=tuple(tuple(map(float, row)) for row in inverse),
        )
