"""Ratios of two subjects that were measured side by side, round by round, with their interval.

Rounds of one cell are interleaved, so a disturbance hits both subjects and falls out of the ratio.
Only records of one cell are paired, never one that ran alone. A subject that took long sat the last
rounds out, so two are compared over the first rounds, which both have.

The bootstrap is own code: it draws the ranks once for each number of rounds, so that 40 rounds take
0.8 ms where scipy.stats.bootstrap takes 14 ms for the same interval; scipy is not a dependency.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

import numpy as np

from assay.records.schema import Record

_RESAMPLES = 2000
_SEED = 0
_TAIL_PERCENT = 2.5  # on either side of a 95 % interval
# Of fewer rounds without any difference, all fall on one side of 1 in more than 5 % of the cases.
FEWEST_ROUNDS = 6
OTHER_CLOCK = "was timed by another clock"  # in the reason why two records are no pair
# Metrics whose samples come from rounds: forward, backward, both. Other samples pair with nothing.
PAIRED_METRICS = ("latency_ms", "backward_ms", "training_ms")

# A cell as one process worked through it.
CellKey = tuple[str, str, str, str, str]


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """A subject's time over a peer's; `reason` explains a missing value or interval."""

    subject: str
    against: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    reason: str = ""

    @property
    def differs(self) -> bool:
        """True where there is an interval and it leaves out 1."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def ratio(record: Record, peer: Record) -> Ratio:
    """Median of record / peer over their rounds; with fewer than 6 rounds, without an interval."""
    names = {"subject": record.subject, "against": peer.subject}
    if reason := why_unpaired(record, peer, fewest_rounds=1):
        return Ratio(**names, reason=f"not paired: {reason}")
    ratios = [ours / theirs for ours, theirs in zip(record.samples, peer.samples, strict=False)]
    measured = {"value": median(ratios), "rounds": len(ratios)}
    if len(ratios) < FEWEST_ROUNDS:
        return Ratio(**names, **measured, reason=f"no interval: {_too_few(len(ratios))}")
    low, high = interval_of_median(tuple(ratios))
    return Ratio(**names, **measured, low=low, high=high)


def mean_ratio(ratios: Sequence[Ratio]) -> Ratio:
    """The geometric mean of ratios on several workloads, each of equal weight.

    Workloads were measured apart, so the half widths of their intervals add up in quadrature, on
    the scale of logarithms; without an interval where one of them has none.
    """
    known = [each for each in ratios if each.value is not None]
    names = {"subject": known[0].subject, "against": known[0].against}
    rounds = min(each.rounds for each in known)
    logs = np.log([each.value for each in known])
    value = float(np.exp(logs.mean()))
    if reason := next((each.reason for each in known if each.low is None), ""):
        return Ratio(**names, value=value, rounds=rounds, reason=reason)
    low, high = (
        float(
            np.exp(logs.mean() + sign * np.sqrt(np.square(np.log(ends) - logs).sum()) / len(logs))
        )
        for sign, ends in ((-1, [e.low for e in known]), (1, [e.high for e in known]))
    )
    return Ratio(**names, value=value, low=low, high=high, rounds=rounds)


def why_unpaired(record: Record, peer: Record, *, fewest_rounds: int = FEWEST_ROUNDS) -> str | None:
    """Reason why two records of one metric are not a pair; None where they are."""
    for each in (record, peer):
        if each.status != "ok":
            return f"{each.subject} is {each.status}: {each.reason}"
        if each.alone:
            return f"{each.subject} ran alone, not side by side with the others"
        if len(each.samples) < fewest_rounds:
            return f"{each.subject} has {_too_few(len(each.samples))}"
        if min(each.samples) <= 0:
            return f"{each.subject} has a sample of zero, by which nothing can be divided"
    if cell_key(record) != cell_key(peer):
        return f"{record.subject} and {peer.subject} were measured in different cells"
    clock, peer_clock = clock_of(record), clock_of(peer)
    if clock != peer_clock:
        return (
            f"{record.subject} {OTHER_CLOCK} ({clock}) than {peer.subject} "
            f"({peer_clock}); on a GPU compare their device_ms, which one profiler took"
        )
    return None


def cell_key(record: Record) -> CellKey:
    return record.run, record.host, record.stage, record.cell, record.fingerprint


def clock_of(record: Record) -> str:
    """Clock that took a record's samples: the first part of its source."""
    return (record.source or "").partition(";")[0]


def log_ratios(record: Record, peer: Record) -> np.ndarray:
    """Logarithm of record / peer in each round of a pair, [rounds]; negative is faster."""
    both = min(len(record.samples), len(peer.samples))
    return np.log(np.array(record.samples[:both]) / np.array(peer.samples[:both]))


def resampled_medians(rounds: Sequence[np.ndarray]) -> np.ndarray:
    """Medians of rounds drawn anew with replacement (Efron 1979), [resamples, arrays].

    Seeded, so the same records give the same interval; each column has draws of its own.
    """
    columns = []
    for column, values in enumerate(rounds):
        lower, upper = _middle_ranks(len(values), column)
        ordered = np.sort(values)
        columns.append((ordered[lower] + ordered[upper]) / 2)
    return np.stack(columns, axis=1)


def interval(values: np.ndarray, tail_percent: float = _TAIL_PERCENT) -> tuple[float, float]:
    """Ends of the middle of resampled values: 95 % of them, unless the tails are given."""
    low, high = np.percentile(values, (tail_percent, 100 - tail_percent))
    return float(low), float(high)


@lru_cache(maxsize=1 << 14)  # one ratio stands in tables, charts and files
def interval_of_median(values: tuple[float, ...]) -> tuple[float, float]:
    """A 95 % bootstrap interval of the median (percentile method), seeded."""
    return interval(resampled_medians([np.asarray(values)]))


@lru_cache(maxsize=256)
def _middle_ranks(count: int, column: int) -> tuple[np.ndarray, np.ndarray]:
    """Ranks of the two middle values in each draw, [resamples] each: the same for all values."""
    drawn = np.random.default_rng([_SEED, column]).integers(count, size=(_RESAMPLES, count))
    drawn.sort(axis=1)
    return drawn[:, (count - 1) // 2], drawn[:, count // 2]


def _too_few(rounds: int) -> str:
    if not rounds:
        return "no samples"
    count = f"{rounds} round{'' if rounds == 1 else 's'}"
    return f"{count}; a 95 % interval takes {FEWEST_ROUNDS} or more"
