"""The length at which one subject overtakes another, with its interval.

At each length the two are compared by the median of their per-round ratios; a difference is real
where the 95 % bootstrap interval of that median is wholly on one side of 1. Between two lengths
with real differences of opposite sign the logarithm of the ratio is drawn as straight lines over
the logarithm of the length, and the crossing is where they meet zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from assay.laws.curves import CurveSetting, cells_by_length, length_of, setting_of
from assay.laws.pairs import interval, log_ratios, resampled_medians, why_unpaired
from assay.records.schema import Record

Outcome = Literal["crosses", "faster", "slower", "no real difference", "not compared"]


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """One length where the sign of the difference changes, with a 95 % interval."""

    length: float
    low: float
    high: float
    overtakes: bool  # else it falls behind

    @property
    def words(self) -> str:
        verb = "overtakes" if self.overtakes else "falls behind"
        return f"{verb} at {self.length:,.0f} tokens ({self.low:,.0f}–{self.high:,.0f})"


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """One subject against another over the lengths at which both were measured in pairs."""

    setting: CurveSetting
    metric: str
    subject: str
    against: str
    outcome: Outcome
    ratios: dict[int, tuple[float, float, float]]  # length -> subject / against, low, high
    crossings: tuple[Crossing, ...]
    unpaired: dict[int, str]  # length -> why it was left out

    @property
    def words(self) -> str:
        """The outcome as a sentence without its subject."""
        if self.outcome == "not compared":
            return f"not compared: {'; '.join(dict.fromkeys(self.unpaired.values()))}"
        if self.outcome == "crosses":
            repeated = "crosses more than once: " if len(self.crossings) > 1 else ""
            return repeated + ", ".join(crossing.words for crossing in self.crossings)
        return f"{self.outcome}{self._lengths}"

    @property
    def _lengths(self) -> str:
        """The lengths at which the outcome was measured, as the end of a sentence."""
        same = [length for length, (_, low, high) in self.ratios.items() if low <= 1 <= high]
        if same and self.outcome != "no real difference":
            lengths = ", ".join(f"{length:,}" for length in same)
            return f" at every length measured but {lengths}, where no difference is real"
        if len(self.ratios) > 1:
            return " at every length measured"
        return f" at {next(iter(self.ratios)):,} tokens, the only length measured"


def crossovers(
    records: Sequence[Record], *, metric: str = "latency_ms", against: str | None = None
) -> list[Crossover]:
    """Every other subject against `against`, or against the first subject of its setting."""
    groups: dict[CurveSetting, list[Record]] = {}
    for record in records:
        if length_of(record) is not None and (record.metric == metric or record.status != "ok"):
            groups.setdefault(setting_of(record), []).append(record)
    compared = []
    for setting, group in groups.items():
        subjects = list(dict.fromkeys(r.subject for r in group if r.metric == metric))
        peer = against or (subjects[0] if subjects else None)
        if peer in subjects:
            others = [subject for subject in subjects if subject != peer]
            compared += [_crossover(setting, metric, s, peer, group) for s in others]
    return compared


def _crossover(
    setting: CurveSetting, metric: str, subject: str, against: str, group: Sequence[Record]
) -> Crossover:
    rounds, unpaired = _rounds_by_length(subject, against, metric, group)
    lengths = sorted(rounds)
    outcome: Outcome = "not compared"
    ratios, crossings = {}, ()
    if lengths:
        drawn = resampled_medians([rounds[length] for length in lengths])  # [resamples, lengths]
        medians = np.array([np.median(rounds[length]) for length in lengths])
        bounds = [interval(drawn[:, index]) for index in range(len(lengths))]
        signs = [1 if low > 0 else -1 if high < 0 else 0 for low, high in bounds]
        outcome = _outcome(signs)
        crossings = _crossings(np.log(lengths), medians, drawn, signs)
        ratios = {
            length: (float(np.exp(middle)), float(np.exp(low)), float(np.exp(high)))
            for length, middle, (low, high) in zip(lengths, medians, bounds, strict=True)
        }
    return Crossover(
        setting=setting,
        metric=metric,
        subject=subject,
        against=against,
        outcome=outcome,
        ratios=ratios,
        crossings=crossings,
        unpaired=unpaired,
    )


def _rounds_by_length(
    subject: str, against: str, metric: str, group: Sequence[Record]
) -> tuple[dict[int, np.ndarray], dict[int, str]]:
    """Log ratios by length, those of several cells put together, and why lengths were left out."""
    rounds: dict[int, list[np.ndarray]] = {}
    unpaired: dict[int, str] = {}
    for (length, _), cell in cells_by_length(group, metric).items():
        missing = [name for name in (subject, against) if name not in cell]
        if len(missing) == 2:
            continue
        reason = (
            f"no record of {missing[0]} in this cell"
            if missing
            else why_unpaired(cell[subject], cell[against])
        )
        if reason:
            unpaired[length] = reason
        else:
            rounds.setdefault(length, []).append(log_ratios(cell[subject], cell[against]))
    joined = {length: np.concatenate(each) for length, each in rounds.items()}
    return joined, {length: unpaired[length] for length in sorted(unpaired) if length not in joined}


def _outcome(signs: Sequence[int]) -> Outcome:
    real = {sign for sign in signs if sign}
    if not real:
        return "no real difference"
    if len(real) == 2:
        return "crosses"
    return "faster" if real == {-1} else "slower"


def _crossings(
    x: np.ndarray, medians: np.ndarray, drawn: np.ndarray, signs: Sequence[int]
) -> tuple[Crossing, ...]:
    """A crossing between each two neighbouring real differences of opposite sign."""
    real = [index for index, sign in enumerate(signs) if sign]
    crossings = []
    for left, right in pairwise(real):
        if signs[left] == signs[right]:
            continue
        part = slice(left, right + 1)
        (place,) = _zeros(x[part], medians[None, part] * signs[right])
        low, high = interval(_zeros(x[part], drawn[:, part] * signs[right]))
        length, low, high = (float(np.exp(each)) for each in (place, low, high))
        crossings.append(Crossing(length=length, low=low, high=high, overtakes=signs[right] < 0))
    return tuple(crossings)


def _zeros(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Places where straight lines through the points of each row of y rise through zero, [rows].

    The middle of the first and the last such place; an end where the row is beyond zero there
    already. x is [points], y is [rows, points].
    """
    rises = (y[:, :-1] < 0) & (y[:, 1:] >= 0)
    first = np.argmax(rises, axis=1)
    last = rises.shape[1] - 1 - np.argmax(rises[:, ::-1], axis=1)
    places = (_along(x, y, first) + _along(x, y, last)) / 2
    return np.where(y[:, 0] >= 0, x[0], np.where(y[:, -1] <= 0, x[-1], places))


def _along(x: np.ndarray, y: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Place where the line of one step of each row meets zero, [rows]."""
    rows = np.arange(len(y))
    before, after = y[rows, step], y[rows, step + 1]
    rise = np.where(after == before, 1.0, after - before)  # a flat step is never the one used
    return x[step] - before * (x[step + 1] - x[step]) / rise
