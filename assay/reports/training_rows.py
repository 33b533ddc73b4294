"""Records of training by model and seed, and how far a model's loss is from the baseline's.

Two models are compared seed by seed, and the mean of the differences is held against their spread:
a single seed shows nothing, and a few show only what is larger than what chance does to a loss.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from assay.laws.quantiles import student_975
from assay.records.identity import current
from assay.records.schema import SEVERITY, Record
from assay.reports.contents import UNFINISHED
from assay.reports.table import NO_RECORD

STAGE = "train"
LOSS = "final_val_loss"
_CELL = re.compile(r"(?P<model>.+)/s(?P<seed>\d+)")
# What two runs must share for their losses to be compared.
_SHARED = {
    "eval_stream": "they were not validated on the same windows",
    "dataset_digest": "they were not trained on the same data",
    "stopped_by": "their training was not ended by the same limit",
}


@dataclass(frozen=True, kw_only=True)
class TrainedSeed:
    """Records of the latest attempt at one model with one seed."""

    records: tuple[Record, ...]

    def last(self, metric: str) -> Record | None:
        """The last record of a metric."""
        return next((r for r in reversed(self.records) if r.metric == metric), None)

    def value(self, metric: str) -> float | None:
        """The last value of a metric; None where there is none, or it is not to be built on."""
        record = self.last(metric)
        return record.value if record and record.status == "ok" else None

    @cached_property
    def loss(self) -> float | None:
        """Final loss on the validation windows, in nats; None where training failed or goes on."""
        return self.value(LOSS)

    @property
    def status(self) -> str:
        """ok with a final loss; else the worst status of its records, or unfinished."""
        if self.loss is not None:
            return "ok"
        worst = min((record.status for record in self.records), key=SEVERITY.index)
        return UNFINISHED if worst == "ok" else worst

    def fact(self, name: str) -> Any:
        """An entry of the final loss's data; None where it has no such entry."""
        record = self.last(LOSS)
        return (record.data or {}).get(name) if record else None

    def reason(self, metric: str) -> str:
        """The reason why a metric has no value: its own, or that of a run without a final loss."""
        candidates = [self.last(metric)]
        if self.loss is None:
            candidates += [self.last(LOSS), *self.records]
        for record in candidates:
            if record and record.reason and (record.status != "ok" or record.value is None):
                return record.reason
        return NO_RECORD if self.loss is not None else "training has not ended"

    def curve(self, metric: str) -> dict[int, float]:
        """Values of a metric by the number of tokens trained on, in rising order."""
        own = [r for r in self.records if r.metric == metric and r.value is not None and r.data]
        points = {r.data["tokens"]: r.value for r in own if "tokens" in r.data}
        return dict(sorted(points.items()))

    @property
    def report_interval(self) -> int:
        """Tokens between two reports, at most; 0 where there were fewer than two."""
        return max((b - a for a, b in pairwise(self.curve("train_loss"))), default=0)


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """A model and the seeds that it was trained with."""

    name: str
    seeds: Mapping[int, TrainedSeed]

    @cached_property
    def ended(self) -> dict[int, TrainedSeed]:
        """The seeds that have a final loss."""
        return {seed: run for seed, run in self.seeds.items() if run.loss is not None}

    def values(self, metric: str) -> list[float]:
        """The value of each seed that has a final loss; of all seeds where none has."""
        values = [run.value(metric) for run in (self.ended or self.seeds).values()]
        return [value for value in values if value is not None]

    def reason(self, metric: str) -> str:
        """The reasons of the seeds without a value that should have it, or the one of them all."""
        runs = self.seeds if metric == LOSS else self.ended or self.seeds
        lacking = {s: r.reason(metric) for s, r in runs.items() if r.value(metric) is None}
        if len(set(lacking.values())) == 1 and len(lacking) == len(runs):
            return next(iter(lacking.values()))
        return "; ".join(f"seed {seed}: {reason}" for seed, reason in lacking.items())


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """A model's loss less the baseline's by seed, in nats; `reason` explains why there is none."""

    model: str
    against: str
    by_seed: Mapping[int, float] = field(default_factory=dict)
    baseline_loss: float | None = None  # mean over the same seeds
    caveats: tuple[str, ...] = ()
    reason: str = ""

    @property
    def mean(self) -> float | None:
        return fmean(self.by_seed.values()) if self.by_seed else None

    @property
    def half_width(self) -> float | None:
        """Half of the 95 % interval of the mean; None of fewer than two seeds."""
        return half_interval(list(self.by_seed.values()))

    @property
    def smallest_detectable(self) -> float | None:
        """The smallest mean difference that these seeds can show: one below is lost in chance."""
        return self.half_width

    @property
    def share(self) -> float | None:
        """The mean as a share of the baseline's loss."""
        return self.mean / self.baseline_loss if self.by_seed and self.baseline_loss else None

    @property
    def verdict(self) -> str:
        """The interval in words: a model is better or worse where the interval leaves out 0."""
        if self.mean is None:
            return "not compared"
        if self.half_width is None:
            return "a single seed is no comparison"
        if self.mean + self.half_width < 0:
            return "better"
        return "worse" if self.mean - self.half_width > 0 else "no difference shown"


def trained_models(records: Sequence[Record]) -> list[TrainedModel]:
    """Models in the order of their first record; the first is the baseline."""
    own = [record for record in records if record.stage == STAGE]
    places = {cell: match for cell in {r.cell for r in own} if (match := _CELL.fullmatch(cell))}
    models: dict[str, dict[int, list[Record]]] = {
        places[record.cell]["model"]: {} for record in own if record.cell in places
    }
    for record in current(own):
        if match := places.get(record.cell):
            models[match["model"]].setdefault(int(match["seed"]), []).append(record)
    return [
        TrainedModel(
            name=name, seeds={s: TrainedSeed(records=tuple(seeds[s])) for s in sorted(seeds)}
        )
        for name, seeds in models.items()
    ]


def half_interval(values: Sequence[float]) -> float | None:
    """Half of the 95 % interval of a mean by Student's t; None of fewer than two values."""
    if len(values) < 2:
        return None
    return student_975(len(values) - 1) * stdev(values) / sqrt(len(values))


def paired(model: TrainedModel, baseline: TrainedModel) -> PairedDifference | None:
    """The difference over the seeds that both have a loss of, or the reason why there is none.

    None for the baseline itself. One pair that cannot be compared refuses all of them.
    """
    if model.name == baseline.name:
        return None
    names = {"model": model.name, "against": baseline.name}
    pairs = {s: (run, baseline.ended[s]) for s, run in model.ended.items() if s in baseline.ended}
    if not pairs:
        return PairedDifference(**names, reason=_nothing_shared(model, baseline))
    for seed, pair in pairs.items():
        if reason := _mismatch(*pair):
            return PairedDifference(**names, reason=f"seed {seed}: {reason}")
    return PairedDifference(
        **names,
        by_seed={seed: ours.loss - theirs.loss for seed, (ours, theirs) in pairs.items()},
        baseline_loss=fmean(theirs.loss for _, theirs in pairs.values()),
        caveats=tuple(_caveats(model, baseline, list(pairs.values()))),
    )


def _nothing_shared(model: TrainedModel, baseline: TrainedModel) -> str:
    for arm in (model, baseline):
        if not arm.ended:
            return f"{arm.name} has no final loss: {arm.reason(LOSS)}"
    seeds = (f"{arm.name} has {', '.join(map(str, arm.ended))}" for arm in (model, baseline))
    return f"no seed in common: {' and '.join(seeds)}"


def _mismatch(ours: TrainedSeed, theirs: TrainedSeed) -> str:
    """The reason why two runs cannot be compared; empty where they can."""
    for name in (*_SHARED, "tokens"):
        if ours.fact(name) is None or theirs.fact(name) is None:
            return f"{name} is not recorded beside the final loss"
    for name, words in _SHARED.items():
        if ours.fact(name) != theirs.fact(name):
            return f"{words} ({ours.fact(name)} against {theirs.fact(name)})"
    windows = [len(run.last(LOSS).samples) for run in (ours, theirs)]
    if windows[0] != windows[1]:
        return f"the loss is of {windows[0]} windows against {windows[1]}"
    tokens = [run.fact("tokens") for run in (ours, theirs)]
    if tokens[0] != tokens[1] and ours.fact("stopped_by") != "time":
        return f"trained on {tokens[0]:,} tokens against {tokens[1]:,}"
    return ""


def _caveats(
    model: TrainedModel, baseline: TrainedModel, pairs: Sequence[tuple[TrainedSeed, TrainedSeed]]
) -> Iterator[str]:
    if len(pairs) == 2:
        yield "2 seeds only"
    for arm, other in ((model, baseline), (baseline, model)):
        for seed in sorted(other.ended.keys() - arm.ended.keys()):
            reason = arm.seeds[seed].reason(LOSS) if seed in arm.seeds else "not trained"
            yield f"seed {seed} left out, {arm.name}: {reason}"
        if len(pairs) > 1 and len(set(arm.values(LOSS))) == 1:
            yield f"{arm.name} has the same loss with each seed"
    if any(map(_apart, pairs)):
        tokens = [fmean(run.fact("tokens") for run in runs) for runs in zip(*pairs, strict=True)]
        yield f"equal time, but {tokens[0]:,.0f} tokens against {tokens[1]:,.0f}"


def _apart(pair: tuple[TrainedSeed, TrainedSeed]) -> bool:
    """True where the tokens of two runs differ by more than one report of either."""
    ours, theirs = (run.fact("tokens") for run in pair)
    return abs(ours - theirs) > max(run.report_interval for run in pair)
