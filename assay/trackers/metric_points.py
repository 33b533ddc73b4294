"""Points of one metric over the steps of a run, and the holes in them."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from assay.trackers.run import TrackerRow, TrackerRun

_REGULAR = 0.5  # of the distances between steps, which the most frequent must exceed


@dataclass(frozen=True, kw_only=True)
class MetricPoints:
    """Values of a metric by step; of several at one step, the last."""

    metric: str
    by_step: dict[int, float]
    count: int  # of numbers, those without a step too
    repeated: int  # steps that were logged more than once
    unusable: dict[str, int]  # values that are no number, by reason
    unusable_steps: frozenset[int] = frozenset()  # where those are

    @property
    def steps(self) -> list[int]:
        return sorted(self.by_step)

    @cached_property
    def missing(self) -> int | None:
        """Steps that its own rhythm asks for and that are not there; None where it has none."""
        steps = sorted(self.unusable_steps | self.by_step.keys())
        apart = Counter(b - a for a, b in pairwise(steps))
        if not apart:
            return 0
        distance, times = apart.most_common(1)[0]
        if times <= _REGULAR * sum(apart.values()):
            return None
        # The last point is where a run ended, whatever its rhythm.
        return sum(max(gap // distance - 1, 0) * count for gap, count in apart.items())

    @property
    def holes(self) -> str:
        """The holes in words; empty where there are none."""
        words = [f"{count:,} {reason}" for reason, count in sorted(self.unusable.items())]
        if self.missing:
            words.append(f"{_steps(self.missing)} missing")
        if self.missing is None:
            words.append("irregular steps")
        if self.repeated:
            words.append(f"{_steps(self.repeated)} more than once")
        return ", ".join(words)


def _steps(count: int) -> str:
    return f"{count:,} step{'' if count == 1 else 's'}"


def points(run: TrackerRun, metric: str) -> MetricPoints:
    """The points of a metric in the history of a run."""
    return all_points(run.history, (metric,)).get(metric) or MetricPoints(
        metric=metric, by_step={}, count=0, repeated=0, unusable={}
    )


def all_points(
    rows: tuple[TrackerRow, ...], metrics: tuple[str, ...] = ()
) -> dict[str, MetricPoints]:
    """The points of some metrics, or of all, by name."""
    values: dict[str, list[tuple[int | None, float]]] = {}
    unusable: dict[str, list[tuple[int | None, str]]] = {}
    for entry in rows:
        for name, value in entry.values.items():
            values.setdefault(name, []).append((entry.step, value))
        for name, reason in entry.unusable.items():
            unusable.setdefault(name, []).append((entry.step, reason))
    names = metrics or tuple(sorted(set(values) | set(unusable)))
    return {
        name: _made(name, values.get(name, []), unusable.get(name, []))
        for name in names
        if name in values or name in unusable
    }


def _made(
    metric: str,
    values: list[tuple[int | None, float]],
    unusable: list[tuple[int | None, str]],
) -> MetricPoints:
    stepped = [(step, value) for step, value in values if step is not None]
    by_step = dict(stepped)
    return MetricPoints(
        metric=metric,
        by_step=by_step,
        count=len(values),
        repeated=sum(times > 1 for times in Counter(step for step, _ in stepped).values()),
        unusable=dict(Counter(reason for _, reason in unusable)),
        unusable_steps=frozenset(step for step, _ in unusable if step is not None),
    )
