"""Runs side by side: values of shared metrics at steps that all of them have, and their configs.

A value is compared with another of the same step only. The last step is the last that all runs
have; the best is looked for among the steps that all have, and the step of each is given.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any, Literal

from assay.trackers.metric_points import MetricPoints, all_points
from assay.trackers.run import TrackerRun

Better = Literal["lower", "higher"]
# Words in a metric's name that say which way is better.
_LOWER = {"loss", "perplexity", "ppl", "error", "seconds", "ms", "bytes", "nll"}
_HIGHER = {"accuracy", "acc", "mfu", "tflop", "f1", "tokens"}
RATES = (
    "tokens_per_s", "tokens_per_sec", "tokens_per_second", "train/tokens_per_s",
    "train/tokens_per_sec", "train/tokens_per_second", "throughput/tokens_per_sec",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MetricComparison:
    """One metric of all runs, at the steps that all of them have."""

    metric: str
    step: int | None  # the last in common; None where there is none
    steps: int  # in common
    last: tuple[float, ...]  # by run; empty without a common step
    better: Better | None  # None where its name does not say
    best: tuple[tuple[float, int], ...]  # value and step by run
    own_last: tuple[int, ...]  # where each run's own points end


@dataclass(frozen=True, kw_only=True)
class PaceComparison:
    """Seconds of a step over the steps that all runs have timed; None where times are not there."""

    first: int
    last: int
    seconds_per_step: tuple[float | None, ...]


def compared(runs: Sequence[TrackerRun]) -> list[MetricComparison]:
    """Every metric that all runs have a number of."""
    points = [{n: p for n, p in all_points(run.history).items() if p.by_step} for run in runs]
    shared = sorted(set.intersection(*(set(own) for own in points)))
    return [_compared(name, [own[name] for own in points]) for name in shared]


def _compared(name: str, points: list[MetricPoints]) -> MetricComparison:
    common = sorted(set.intersection(*(set(own.by_step) for own in points)))
    better = direction(name)
    return MetricComparison(
        metric=name,
        step=common[-1] if common else None,
        steps=len(common),
        last=tuple(own.by_step[common[-1]] for own in points) if common else (),
        better=better,
        best=tuple(_best(own, common, better) for own in points) if common and better else (),
        own_last=tuple(own.steps[-1] for own in points),
    )


def _best(points: MetricPoints, steps: list[int], better: Better) -> tuple[float, int]:
    """The best value and the earliest step that has it."""
    sign = 1 if better == "lower" else -1
    _, step = min((sign * points.by_step[step], step) for step in steps)
    return points.by_step[step], step


def direction(metric: str) -> Better | None:
    """Which way a metric is better, by the words of its name; None where they do not say."""
    words = set(re.split(r"[^a-z0-9]+", metric.lower()))
    if words & _LOWER:
        return "lower"
    return "higher" if words & _HIGHER else None


def pace(runs: Sequence[TrackerRun]) -> PaceComparison | None:
    """Time per step between the first and the last step that all runs have timed."""
    times = [
        {row.step: row.time for row in run.history if row.step is not None and row.time is not None}
        for run in runs
    ]
    common = sorted(set.intersection(*(set(own) for own in times)))
    if len(common) < 2:
        return None
    first, last = common[0], common[-1]
    spans = [own[last] - own[first] for own in times]
    return PaceComparison(
        first=first,
        last=last,
        seconds_per_step=tuple(s / (last - first) if s > 0 else None for s in spans),
    )


def rate(run: TrackerRun, step: int | None = None) -> tuple[float, str] | None:
    """The median of the tokens per second that were logged up to a step, and under which name."""
    points = all_points(run.history, RATES)
    for name, own in points.items():
        logged = [v for at, v in own.by_step.items() if step is None or at <= step]
        if logged:
            return median(logged), name
    return None


def config_differences(runs: Sequence[TrackerRun]) -> dict[str, tuple[Any, ...]]:
    """Keys whose values differ between configurations; absent is None. A run without any
    configuration has nothing to compare."""
    names = dict.fromkeys(name for run in runs for name in run.config)
    values = {name: tuple(run.config.get(name) for run in runs) for name in sorted(names)}
    return {name: row for name, row in values.items() if len({str(v) for v in row}) > 1}


@dataclass(frozen=True, kw_only=True)
class GroupValue:
    """Runs of one group at one step; no spread of a single run."""

    group: str
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def spread(self) -> float | None:
        return stdev(self.values) if len(self.values) > 1 else None


def grouped_by(runs: Sequence[TrackerRun], key: str) -> dict[str, list[int]]:
    """Places of the runs by host or by a key of their configuration."""
    groups: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        value = getattr(run, key) if key in ("host", "group", "project") else run.config.get(key)
        groups.setdefault("not said" if value is None else str(value), []).append(place)
    return groups


def group_values(comparison: MetricComparison, groups: dict[str, list[int]]) -> list[GroupValue]:
    """Last values of a metric by group, all at the step that every run has."""
    if comparison.step is None:
        return []
    return [
        GroupValue(group=name, values=tuple(comparison.last[place] for place in places))
        for name, places in groups.items()
    ]
