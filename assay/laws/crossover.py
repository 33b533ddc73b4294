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

from assay.laws.pairs import interval, log_ratios, place_of, resampled_medians, why_unpaired
from assay.laws.series import Setting, length_of, setting_of
from assay.records.schema import Record

Outcome = Literal["crosses", "faster", "slower", "no real difference", "not compared"]


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """One length where the sign of the difference changes, with a 95 % interval."""

    length: float
    low: float
    high: float
    overtakes: bool  # else it falls behind


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """One subject against another over the lengths at which both were measured in pairs."""

    setting: Setting
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
        return _words(self)


def crossovers(
    records: Sequence[Record], *, metric: str = "latency_ms", against: str | None = None
) -> list[Crossover]:
    """Every other subject against `against`, or against the first subject of its setting."""
    groups: dict[Setting, list[Record]] = {}
    for record in records:
        if length_of(record) is not None and _tells(record, metric):
            groups.setdefault(setting_of(record), []).append(record)
    found = []
    for setting, group in groups.items():
        measured = [record for record in group if record.metric == metric]
        subjects = list(dict.fromkeys(record.subject for record in measured))
        peer = against or (subjects[0] if subjects else None)
        if peer in subjects:
            found += [
                _crossover(setting, metric, subject, peer, group)
                for subject in subjects
                if subject != peer
            ]
    return found


def _tells(record: Record, metric: str) -> bool:
    """Whether a record is of this metric, or says how its subject ended without one."""
    return record.metric == metric or record.status != "ok"


def _crossover(
    setting: Setting, metric: str, subject: str, against: str, group: Sequence[Record]
) -> Crossover:
    pairs, unpaired = _pairs(subject, against, metric, group)
    told = {"setting": setting, "metric": metric, "subject": subject, "against": against}
    if not pairs:
        outcome: Outcome = "not compared"
        return Crossover(**told, outcome=outcome, ratios={}, crossings=(), unpaired=unpaired)
    lengths = sorted(pairs)
    drawn = resampled_medians([pairs[length] for length in lengths])
    middles = np.array([np.median(pairs[length]) for length in lengths])
    bounds = [interval(drawn[:, index]) for index in range(len(lengths))]
    signs = [1 if low > 0 else -1 if high < 0 else 0 for low, high in bounds]
    crossings = _crossings(np.log(lengths), middles, drawn, signs)
    return Crossover(
        **told,
        outcome=_outcome(signs),
        ratios={
            length: (float(np.exp(middle)), float(np.exp(low)), float(np.exp(high)))
            for length, middle, (low, high) in zip(lengths, middles, bounds, strict=True)
        },
        crossings=crossings,
        unpaired=unpaired,
    )


def _pairs(
    subject: str, against: str, metric: str, group: Sequence[Record]
) -> tuple[dict[int, np.ndarray], dict[int, str]]:
    """Rounds by length; several cells of one length are put together. And the lengths left out."""
    places: dict[tuple, dict[str, Record]] = {}
    for record in group:
        if record.subject in (subject, against):
            there = places.setdefault((length_of(record), place_of(record)), {})
            # How a subject ended counts only where it has none of this metric.
            if record.subject not in there or record.metric == metric:
                there[record.subject] = record
    rounds: dict[int, list[np.ndarray]] = {}
    unpaired: dict[int, str] = {}
    for (length, _), there in places.items():
        missing = [name for name in (subject, against) if name not in there]
        reason = (
            f"no record of {missing[0]} in this cell"
            if missing
            else why_unpaired(there[subject], there[against])
        )
        if reason:
            unpaired[length] = reason
        else:
            rounds.setdefault(length, []).append(log_ratios(there[subject], there[against]))
    joined = {length: np.concatenate(found) for length, found in rounds.items()}
    return joined, {length: unpaired[length] for length in sorted(unpaired) if length not in joined}


def _outcome(signs: Sequence[int]) -> Outcome:
    real = {sign for sign in signs if sign}
    if not real:
        return "no real difference"
    if len(real) == 2:
        return "crosses"
    return "faster" if real == {-1} else "slower"


def _crossings(
    x: np.ndarray, middles: np.ndarray, drawn: np.ndarray, signs: Sequence[int]
) -> tuple[Crossing, ...]:
    """A crossing between each two neighbouring real differences of opposite sign."""
    real = [index for index, sign in enumerate(signs) if sign]
    found = []
    for left, right in pairwise(real):
        if signs[left] == signs[right]:
            continue
        part = slice(left, right + 1)
        (place,) = _zeros(x[part], middles[None, part] * signs[right])
        low, high = interval(_zeros(x[part], drawn[:, part] * signs[right]))
        found.append(
            Crossing(
                length=float(np.exp(place)),
                low=float(np.exp(low)),
                high=float(np.exp(high)),
                overtakes=signs[right] < 0,
            )
        )
    return tuple(found)


def _zeros(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where straight lines through the points of each row of y rise through zero.

    The middle of the first and the last place where they do so; an end where the row is beyond
    zero there already.
    """
    rises = (y[:, :-1] < 0) & (y[:, 1:] >= 0)
    first = np.argmax(rises, axis=1)
    last = rises.shape[1] - 1 - np.argmax(rises[:, ::-1], axis=1)
    places = (_along(x, y, first) + _along(x, y, last)) / 2
    return np.where(y[:, 0] >= 0, x[0], np.where(y[:, -1] <= 0, x[-1], places))


def _along(x: np.ndarray, y: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Where the line of one step of each row meets zero."""
    rows = np.arange(len(y))
    before, after = y[rows, step], y[rows, step + 1]
    rise = np.where(after == before, 1.0, after - before)  # a flat step is never the one used
    return x[step] - before * (x[step + 1] - x[step]) / rise


def _words(found: Crossover) -> str:
    if found.outcome == "not compared":
        reasons = "; ".join(dict.fromkeys(found.unpaired.values()))
        return f"not compared: {reasons}"
    if found.outcome == "crosses":
        parts = [
            f"{'overtakes' if one.overtakes else 'falls behind'} at {one.length:,.0f} tokens "
            f"({one.low:,.0f}–{one.high:,.0f})"
            for one in found.crossings
        ]
        many = "crosses more than once: " if len(parts) > 1 else ""
        return many + ", ".join(parts)
    return f"{found.outcome}{_where(found)}"


def _where(found: Crossover) -> str:
    """At which of the lengths measured a difference is real."""
    same = [length for length, (_, low, high) in found.ratios.items() if low <= 1 <= high]
    if found.outcome == "no real difference" or not same:
        return " at every length measured" if len(found.ratios) > 1 else _only(found)
    told = ", ".join(f"{length:,}" for length in same)
    return f" at every length measured but {told}, where no difference is real"


def _only(found: Crossover) -> str:
    return f" at {next(iter(found.ratios)):,} tokens, the only length measured"
