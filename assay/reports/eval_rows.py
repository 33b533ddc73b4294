"""Scores of evals by model and seed, and how far a model's are from the baseline's.

Two models are compared where they were scored on the same items, item by item and seed by seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from assay.records.identity import current
from assay.records.schema import Record
from assay.reports.training_rows import TrainedSeed, half_interval, trained_models

STAGE = "evals"
PREFIX = "eval."
ALONE = 0  # the seed of a model that was not trained here


@dataclass(frozen=True, kw_only=True)
class EvalRow:
    """A metric of a model: its records by seed, and those of the baseline."""

    metric: str
    model: str
    trained: bool
    seeds: Mapping[int, Record]
    baseline: Mapping[int, Record]
    is_baseline: bool = False

    @property
    def known(self) -> dict[int, Record]:
        """Records that have a value to build on."""
        return _known(self.seeds)

    @property
    def reason(self) -> str:
        """The reasons why seeds have no value."""
        lost = (r.reason for s, r in self.seeds.items() if s not in self.known)
        return "; ".join(dict.fromkeys(reason for reason in lost if reason))

    def data(self, name: str) -> Any:
        """An entry of the data of the first record; None where it has none."""
        first = next(iter(self.seeds.values()))
        return (first.data or {}).get(name)

    @property
    def error(self) -> float | None:
        """Standard error of the value of a seed, mean over seeds; None where a seed has none."""
        errors = [(record.data or {}).get("standard_error") for record in self.known.values()]
        return fmean(errors) if errors and None not in errors else None

    @property
    def pairs(self) -> dict[int, tuple[Record, Record]]:
        """Our record and the baseline's, by seeds that both have a value of."""
        theirs = _known(self.baseline)
        return {s: (record, theirs[s]) for s, record in self.known.items() if s in theirs}

    @property
    def why_not_compared(self) -> str:
        """The reason why there is no difference; empty where there is one."""
        if not self.pairs:
            return "no seed has a value of both"
        for name in ("digest", "items", "entry"):
            for ours, theirs in self.pairs.values():
                a, b = ((record.data or {}).get(name) for record in (ours, theirs))
                if a is None or a != b:
                    return f"not scored on the same: {name} is {a} against {b}"
        return ""

    @property
    def by_seed(self) -> list[float]:
        """The difference of each seed."""
        return [ours.value - theirs.value for ours, theirs in self.pairs.values()]

    @property
    def by_item(self) -> list[float]:
        """The difference of each item, mean over seeds; empty where items have no samples."""
        pairs = [(ours.samples, theirs.samples) for ours, theirs in self.pairs.values()]
        if len({len(samples) for pair in pairs for samples in pair}) != 1:
            return []
        columns = [[a - b for a, b in zip(*pair, strict=True)] for pair in pairs]
        return [fmean(item) for item in zip(*columns, strict=True)]

    @property
    def verdict(self) -> str:
        """The intervals in words: of a model that was trained over seeds and over items, of one
        that was not over items."""
        halves = {"items": half_interval(self.by_item)}
        if self.trained:
            halves["seeds"] = half_interval(self.by_seed)
            if halves["seeds"] is None:
                return "a single seed is no comparison"
            if not self.by_item:
                del halves["items"]
        if None in halves.values():
            return "no interval: too few items, or none have samples"
        mean = fmean(self.by_seed)
        if abs(mean) <= max(halves.values()):
            return "no difference shown"
        better = self.data("better")
        if better is None:
            return "above" if mean > 0 else "below"
        return "better" if (mean > 0) == (better == "higher") else "worse"


def eval_rows(stage: str, records: Sequence[Record]) -> list[EvalRow]:
    """Rows of a stage, metric by metric, models in the order of their first record."""
    models = _models(stage, records)
    own = (r for seeds in models.values() for run in seeds.values() for r in run.records)
    metrics = dict.fromkeys(r.metric for r in own if r.metric.startswith(PREFIX))
    return [
        EvalRow(
            metric=metric,
            model=model,
            trained=stage != STAGE,
            seeds=of_seed,
            baseline=_of_seed(next(iter(models.values())), metric),
            is_baseline=model == next(iter(models)),
        )
        for metric in metrics
        for model, seeds in models.items()
        if (of_seed := _of_seed(seeds, metric))
    ]


def _of_seed(seeds: Mapping[int, TrainedSeed], metric: str) -> dict[int, Record]:
    return {seed: record for seed, run in seeds.items() if (record := run.last(metric))}


def _known(records: Mapping[int, Record]) -> dict[int, Record]:
    return {s: r for s, r in records.items() if r.status == "ok" and r.value is not None}


def _models(stage: str, records: Sequence[Record]) -> dict[str, Mapping[int, TrainedSeed]]:
    if stage != STAGE:
        return {model.name: model.seeds for model in trained_models(records)}
    by_model: dict[str, list[Record]] = {}
    for record in current([record for record in records if record.stage == STAGE]):
        by_model.setdefault(record.subject, []).append(record)
    by_model.pop("", None)  # the cells' own ends
    return {name: {ALONE: TrainedSeed(records=tuple(own))} for name, own in by_model.items()}
