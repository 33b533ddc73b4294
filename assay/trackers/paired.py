"""Runs before a change beside the same runs after it: one with one, or seed by seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from assay.errors import BadInput
from assay.trackers.aliases import read_config
from assay.trackers.opening import listed
from assay.trackers.run import TrackerRun
from assay.trackers.side_by_side import MetricComparison


@dataclass(frozen=True, kw_only=True)
class PairedChange:
    """A metric before and after, at the step that all runs have; relative changes in percent, by
    pair, and none where a value before is zero."""

    metric: str
    step: int
    before: float
    after: float
    changes: tuple[float, ...]

    @property
    def change(self) -> float | None:
        return fmean(self.changes) if self.changes else None


def paired(before: Sequence[TrackerRun], after: Sequence[TrackerRun]) -> list[TrackerRun]:
    """Runs in pairs, the one before and then the one after; seeds say which belong together."""
    if len(before) == len(after) == 1:
        return [before[0], after[0]]
    sides = [{str(read_config(run).seed): run for run in side} for side in (before, after)]
    if len(sides[0]) < len(before) or len(sides[1]) < len(after):
        raise BadInput(
            "runs cannot be paired, for two of one side have the same seed or none: before "
            f"{listed(before)}; after {listed(after)}; name one of each side as SOURCE::NAME"
        )
    if sides[0].keys() != sides[1].keys():
        raise BadInput(
            f"seeds before are {', '.join(sorted(sides[0]))}, after {', '.join(sorted(sides[1]))}; "
            "wanted the same"
        )
    return [side[seed] for seed in sorted(sides[0]) for side in sides]


def paired_changes(comparisons: Sequence[MetricComparison]) -> list[PairedChange]:
    """Changes of every metric that has a step in common, over runs in the order of `paired`."""
    return [_change(each, each.step) for each in comparisons if each.step is not None]


def _change(comparison: MetricComparison, step: int) -> PairedChange:
    before, after = comparison.last[::2], comparison.last[1::2]
    pairs = zip(before, after, strict=True)
    return PairedChange(
        metric=comparison.metric,
        step=step,
        before=fmean(before),
        after=fmean(after),
        changes=tuple(100 * (b - a) / abs(a) for a, b in pairs) if all(before) else (),
    )
