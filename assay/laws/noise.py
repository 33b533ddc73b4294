"""The rule for a real difference, and how often it errs on this machine.

A difference between two is called real when the 99 % bootstrap interval of the median of their
per-round ratios lies wholly beyond a margin of 1 % on either side of 1. The stage `noise` puts the
rule to the test: an implementation against itself (any difference is a false alarm), and against
a copy with a planted slowdown.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.laws.pairs import interval, resampled_medians
from assay.laws.quantiles import upper_bound
from assay.records.schema import Record

MARGIN = 0.01
TAIL_PERCENT = 0.5  # on either side of a 99 % interval
_POWER_PERCENT = 95
FEWEST = 59  # comparisons: without one false alarm, they show a rate below 5 % (95 % confidence)

STAGE = "noise"
# Metrics of the stage: samples of both sides, rounds of a comparison, the planted slowdown.
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
    """Comparisons of one subject with itself on one workload, over all its processes."""

    subject: str
    workload: str
    host: str
    rounds: int
    comparisons: int
    alarms: int
    alarm_bound: float  # the rate of false alarms is below it, with 95 % confidence
    planted_share: float
    planted: int
    detected: int
    power_bound: float  # the planted slowdown is detected at least this often, 95 % confidence
    smallest_effect: float  # the slowdown that 95 % of these comparisons would have detected
    processes: int
    between_processes: float | None  # standard deviation of the medians' logarithms
    latency_ms: float

    @property
    def cannot_judge(self) -> str:
        """The reason to give no rate: too few comparisons; empty where there are enough."""
        if self.comparisons >= FEWEST:
            return ""
        return (
            f"cannot judge: {self.comparisons} comparisons are too few; {FEWEST} without a false "
            "alarm show a rate below 5 %"
        )

    @property
    def alarm_rate(self) -> float:
        return self.alarms / self.comparisons

    @property
    def power(self) -> float | None:
        return self.detected / self.planted if self.planted else None


def difference(ratios: Sequence[float] | np.ndarray) -> Difference:
    """Median of per-round ratios, with its interval; seeded."""
    values = np.asarray(ratios, dtype=float)
    low, high = interval(resampled_medians([values]), tail_percent=TAIL_PERCENT)
    return Difference(ratio=float(np.median(values)), low=low, high=high)


def noise_of(records: Sequence[Record]) -> list[Noise]:
    """Noise of each subject and workload for which the stage `noise` left all its metrics."""
    groups: dict[tuple[str, str, str], dict[str, list[Record]]] = {}
    for record in records:
        if record.stage == STAGE and record.status == "ok" and record.workload:
            key = (record.subject, record.workload.name, record.host)
            groups.setdefault(key, {}).setdefault(record.metric, []).append(record)
    return [
        _noise(key, by_metric)
        for key, by_metric in groups.items()
        if {*AA, *PLANTED, ROUNDS, SHARE} <= set(by_metric)
    ]


def _noise(key: tuple[str, str, str], by_metric: dict[str, list[Record]]) -> Noise:
    subject, workload, host = key
    rounds = int(by_metric[ROUNDS][0].value or 0)
    aa = _comparisons(by_metric, AA, rounds)
    planted = _comparisons(by_metric, PLANTED, rounds)
    alarms = sum(each.verdict is not None for each in aa)
    detected = sum(each.verdict == "slower" for each in planted)
    medians = [float(np.median(record.samples)) for record in by_metric[AA[0]]]
    needed = [(1 + MARGIN) / each.low - 1 for each in aa]
    return Noise(
        subject=subject,
        workload=workload,
        host=host,
        rounds=rounds,
        comparisons=len(aa),
        alarms=alarms,
        alarm_bound=upper_bound(alarms, len(aa)),
        planted_share=float(by_metric[SHARE][0].value or 0.0),
        planted=len(planted),
        detected=detected,
        power_bound=1 - upper_bound(len(planted) - detected, len(planted)),
        smallest_effect=float(np.percentile(needed, _POWER_PERCENT)),
        processes=len(medians),
        between_processes=float(np.std(np.log(medians), ddof=1)) if len(medians) > 1 else None,
        latency_ms=float(np.median(medians)),
    )


def _comparisons(
    by_metric: dict[str, list[Record]], names: tuple[str, str], rounds: int
) -> list[Difference]:
    """The comparisons of all processes: as many rounds each as they were planned with."""
    differences = []
    for first, second in zip(by_metric[names[0]], by_metric[names[1]], strict=True):
        ratios = np.array(second.samples) / np.array(first.samples)
        differences += [difference(part) for part in ratios.reshape(-1, rounds)]
    return differences
