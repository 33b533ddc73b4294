"""A curve over the length as c2 * S^2 + c1 * S + c0, no term of which is negative.

Its coefficients are those of least squares on relative errors. The best fit without negative terms
is the plain least-squares fit of its own terms (the Karush-Kuhn-Tucker conditions), and three terms
have only seven subsets, so all are tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from assay.laws.student import quantile_975

POWERS = (2, 1, 0)
_NAMES = {2: "quadratic", 1: "linear", 0: "constant"}
# A term must shrink the residual by more than rounding does.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Coefficients by power of the length, and how sure they are.

    `spread` is the relative standard deviation of a point; None where there are as many terms as
    points. `inverse` belongs to the terms that are present.
    """

    coefficients: dict[int, float]
    spread: float | None
    freedom: int
    inverse: tuple[tuple[float, ...], ...]

    def at(self, length: float) -> float:
        return sum(c * length**power for power, c in self.coefficients.items())

    def slope(self, length: float) -> float:
        """The derivative in the length."""
        return sum(p * c * length ** (p - 1) for p, c in self.coefficients.items() if p)

    def shares(self, length: float) -> dict[str, float]:
        """What part of the value at a length each term makes."""
        whole = self.at(length)
        return {_NAMES[p]: c * length**p / whole for p, c in self.coefficients.items()}

    def error(self, length: float) -> float | None:
        """Half of the 95 % interval of a new value at a length; None where it is not known."""
        if self.spread is None:
            return None
        row = np.array([float(length) ** power for power in self.coefficients])
        of_curve = float(row @ np.array(self.inverse) @ row)
        deviation = self.spread * (of_curve + self.at(length) ** 2) ** 0.5
        return quantile_975(self.freedom) * deviation


def fit(points: Sequence[tuple[int, float]]) -> Terms | None:
    """The nonnegative fit of at least three positive points; None for fewer or others."""
    if len(points) < len(POWERS) or min(value for _, value in points) <= 0:
        return None
    lengths, values = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    best: tuple[float, tuple[int, ...]] | None = None
    for count in range(1, len(POWERS) + 1):
        for powers in combinations(POWERS, count):
            solved = _solve(lengths, values, powers)
            if solved is None:
                continue
            residual = solved[1]
            if best is None or residual < best[0] * (1 - 1e-6) - _ROUNDING:
                best = residual, powers
    assert best, "a constant term alone always fits"
    return _terms(lengths, values, best[1])


def _solve(
    lengths: np.ndarray, values: np.ndarray, powers: tuple[int, ...]
) -> tuple[np.ndarray, float] | None:
    """Coefficients and the sum of squared relative errors; None where one is negative."""
    design = _design(lengths, values, powers)
    scale = np.linalg.norm(design, axis=0)
    solution, *_ = np.linalg.lstsq(design / scale, np.ones(len(values)), rcond=None)
    coefficients = solution / scale
    if (coefficients < 0).any():
        return None
    return coefficients, float(np.sum((design @ coefficients - 1) ** 2))


def _design(lengths: np.ndarray, values: np.ndarray, powers: tuple[int, ...]) -> np.ndarray:
    return np.stack([lengths**power / values for power in powers], axis=1)


def _terms(lengths: np.ndarray, values: np.ndarray, powers: tuple[int, ...]) -> Terms:
    solved = _solve(lengths, values, powers)
    assert solved
    coefficients, residual = solved
    design = _design(lengths, values, powers)
    scale = np.linalg.norm(design, axis=0)
    scaled = design / scale
    inverse = np.linalg.pinv(scaled.T @ scaled) / np.outer(scale, scale)
    freedom = len(values) - len(powers)
    return Terms(
        coefficients=dict(zip(powers, map(float, coefficients), strict=True)),
        spread=(residual / freedom) ** 0.5 if freedom else None,
        freedom=freedom,
        inverse=tuple(tuple(map(float, row)) for row in inverse),
    )
