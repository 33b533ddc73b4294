"""When a difference is real, and how often that rule errs on this machine.

A difference between two is called real when the 99 % bootstrap interval of the median of their
per-round ratios lies wholly beyond a margin of 1 % on either side of 1. The stage `noise` puts the
rule to the test: an implementation against itself (any difference is a false alarm), and against
a copy with a planted slowdown.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.laws.pairs import interval, resampled_medians
from assay.records.schema import Record

MARGIN = 0.01
TAIL_PERCENT = 0.5  # on either side of a 99 % interval
_POWER_PERCENT = 95
_DOUBT = 0.05  # that a one-sided bound leaves

STAGE = "noise"
# What the stage records: samples of both sides, rounds of a comparison, how much was planted.
AA = ("aa_first_ms", "aa_second_ms")
PLANTED = ("planted_first_ms", "planted_second_ms")
ROUNDS = "noise_rounds"
SHARE = "planted_share"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A ratio with its 99 % interval."""

    ratio: float
    low: float
    high: float

    @property
    def verdict(self) -> str | None:
        """slower, faster, or None where the difference is not real."""
        if self.low > 1 + MARGIN:
            return "slower"
        return "faster" if self.high < 1 / (1 + MARGIN) else None


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What the comparisons of one subject on one workload say, over all its processes."""

    subject: str
    workload: str
    host: str
    rounds: int
    comparisons: int
    alarms: int
    alarm_bound: float  # the rate of false alarms is below it, with 95 % confidence
    planted_share: float
    planted: int
    found: int
    power_bound: float  # the planted slowdown is found at least this often, with 95 % confidence
    smallest_effect: float  # the slowdown that 95 % of these comparisons would have found
    processes: int
    between_processes: float | None  # standard deviation of the medians' logarithms
    latency_ms: float

    @property
    def alarm_rate(self) -> float:
        return self.alarms / self.comparisons

    @property
    def power(self) -> float | None:
        return self.found / self.planted if self.planted else None


def difference(ratios: Sequence[float] | np.ndarray) -> Difference:
    """The median of per-round ratios, with its interval; seeded."""
    values = np.asarray(ratios, dtype=float)
    low, high = interval(resampled_medians([values]), tail_percent=TAIL_PERCENT)
    return Difference(ratio=float(np.median(values)), low=low, high=high)


def noise_of(records: Sequence[Record]) -> list[Noise]:
    """What the records of the stage `noise` say, for each subject and workload."""
    groups: dict[tuple[str, str, str], dict[str, list[Record]]] = {}
    for record in records:
        if record.stage == STAGE and record.status == "ok" and record.workload:
            key = (record.subject, record.workload.name, record.host)
            groups.setdefault(key, {}).setdefault(record.metric, []).append(record)
    complete = (*AA, *PLANTED, ROUNDS, SHARE)
    return [
        _noise(key, found)
        for key, found in groups.items()
        if all(name in found for name in complete)
    ]


def _noise(key: tuple[str, str, str], found: dict[str, list[Record]]) -> Noise:
    subject, workload, host = key
    rounds = int(found[ROUNDS][0].value or 0)
    aa = _comparisons(found, AA, rounds)
    planted = _comparisons(found, PLANTED, rounds)
    alarms = sum(one.verdict is not None for one in aa)
    caught = sum(one.verdict == "slower" for one in planted)
    medians = [float(np.median(record.samples)) for record in found[AA[0]]]
    needed = [(1 + MARGIN) / one.low - 1 for one in aa]
    return Noise(
        subject=subject,
        workload=workload,
        host=host,
        rounds=rounds,
        comparisons=len(aa),
        alarms=alarms,
        alarm_bound=upper_bound(alarms, len(aa)),
        planted_share=float(found[SHARE][0].value or 0.0),
        planted=len(planted),
        found=caught,
        power_bound=1 - upper_bound(len(planted) - caught, len(planted)),
        smallest_effect=float(np.percentile(needed, _POWER_PERCENT)),
        processes=len(medians),
        between_processes=float(np.std(np.log(medians), ddof=1)) if len(medians) > 1 else None,
        latency_ms=float(np.median(medians)),
    )


def _comparisons(
    found: dict[str, list[Record]], names: tuple[str, str], rounds: int
) -> list[Difference]:
    """The comparisons of all processes: as many rounds each as they were planned with."""
    differences = []
    for first, second in zip(found[names[0]], found[names[1]], strict=True):
        ratios = np.array(second.samples) / np.array(first.samples)
        differences += [difference(part) for part in ratios.reshape(-1, rounds)]
    return differences


def upper_bound(events: int, trials: int) -> float:
    """The highest rate that would show so few events in one of twenty such experiments (Clopper
    and Pearson 1934)."""
    if events >= trials:
        return 1.0
    low, high = events / trials, 1.0
    for _ in range(60):
        rate = (low + high) / 2
        low, high = (rate, high) if _at_most(events, trials, rate) > _DOUBT else (low, rate)
    return high


def _at_most(events: int, trials: int, rate: float) -> float:
    """The chance of no more than so many events."""
    terms = [
        math.lgamma(trials + 1)
        - math.lgamma(k + 1)
        - math.lgamma(trials - k + 1)
        + k * math.log(rate)
        + (trials - k) * math.log1p(-rate)
        for k in range(events + 1)
    ]
    return math.fsum(map(math.exp, terms))
