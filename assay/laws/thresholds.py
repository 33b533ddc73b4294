"""The subject to use at each length that was measured and between them, on one machine.

The first subject of the records is used until another is faster for certain: in every cell of a
length the 95 % interval of the paired ratio must lie wholly below 1. A subject that cannot run a
length is left before it. What failed a check is never used.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, exp, log
from statistics import median

import numpy as np

from assay.laws.curves import DECODE, cells_by_length, length_of, setting_of
from assay.laws.pairs import interval, log_ratios, resampled_medians, why_unpaired
from assay.records.schema import Record
from assay.records.verdicts import CHECKING

METRIC = "latency_ms"
_CLASS = ("heads", "kv_heads", "head_dim", "dtype", "causal")
# A workload with anything else in its specification (a window, a mask) is in no class.
_PLAIN = {*_CLASS, "batch", "query_length", "key_length", "seed"}


@dataclass(frozen=True, kw_only=True)
class WorkloadClass:
    """A class of workloads on one machine. `layer` is that of subjects called layer:core, and the
    layout of decode kernels, which are called layout:file."""

    host: str
    level: str
    layer: str | None
    heads: int
    kv_heads: int
    head_dim: int
    dtype: str
    causal: bool


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The subject to use from this length on."""

    start: int
    use: str


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The choices for a class, ascending, good between the shortest and the longest length that was
    measured; of the batches too only those measured are known."""

    workloads: WorkloadClass
    batches: tuple[int, ...]
    lengths: tuple[int, ...]
    choices: tuple[Choice, ...]

    @property
    def words(self) -> str:
        """The advice as a sentence without the machine."""
        first, *later = self.choices
        measured = f"measured from {self.lengths[0]:,} to {self.lengths[-1]:,}"
        if not later:
            return f"use {first.use} at every length ({measured})"
        parts = [f"use {first.use} below {later[0].start:,} tokens"]
        parts += [f"{choice.use} from {choice.start:,} tokens" for choice in later]
        return f"{', '.join(parts)} ({measured})"


# The records of one cell by subject: of the metric where there is one, else how it ended.
_Cell = dict[str, Record]


def recommend(records: Sequence[Record]) -> list[Recommendation]:
    """A recommendation for every class of which two subjects and two lengths were measured."""
    recommendations = []
    for workloads, members in _classes(records).items():
        by_length: dict[int, list[_Cell]] = {}
        for (length, _), cell in cells_by_length(members, METRIC).items():
            by_length.setdefault(length, []).append(cell)
        by_length = dict(sorted(by_length.items()))
        cells = [cell for length in by_length.values() for cell in length]
        subjects = list(dict.fromkeys(s for cell in cells for s in cell if _runs(s, [cell])))
        if len(subjects) < 2 or len(by_length) < 2:
            continue
        choices = tuple(_choices(subjects, by_length))
        if not choices:
            continue
        specs = [r.workload.spec for cell in cells for r in cell.values() if r.workload]
        recommendations.append(
            Recommendation(
                workloads=workloads,
                batches=tuple(sorted({spec["batch"] for spec in specs})),
                lengths=tuple(by_length),
                choices=choices,
            )
        )
    return recommendations


def _classes(records: Sequence[Record]) -> dict[WorkloadClass, list[Record]]:
    """Times and endings of each class, less those of subjects that failed a check on it."""
    # A failed check without a workload rules its subject out on every one.
    failed = {
        _checked_class(record, everywhere=record.workload is None)
        for record in records
        if record.stage in CHECKING and record.status == "failed"
    }
    classes: dict[WorkloadClass, list[Record]] = {}
    for record in records:
        workloads = _class_of(record)
        relevant = record.metric == METRIC or record.status != "ok"
        if workloads is None or not relevant or record.stage in CHECKING or not record.subject:
            continue
        if not any(_checked_class(record, everywhere=each) in failed for each in (True, False)):
            classes.setdefault(workloads, []).append(record)
    return classes


def _class_of(record: Record) -> WorkloadClass | None:
    spec = record.workload.spec if record.workload else {}
    if set(spec) != _PLAIN or length_of(record) is None:
        return None
    layer, colon, _ = record.subject.partition(":")
    level = setting_of(record).level
    if level == "layer" and not colon:
        return None  # a layer with the core that it chooses itself
    if record.stage == DECODE and spec["query_length"] != 1:
        return None  # who asks for a kernel decodes token by token
    return WorkloadClass(
        host=record.host,
        level=level,
        layer=layer if colon else None,
        **{name: spec[name] for name in _CLASS},
    )


def _checked_class(record: Record, *, everywhere: bool) -> tuple:
    spec = record.workload.spec if record.workload and not everywhere else {}
    return (record.host, record.subject, *(spec.get(name) for name in _CLASS))


def _choices(subjects: list[str], by_length: dict[int, list[_Cell]]) -> Iterator[Choice]:
    """Choices from walking up the lengths: another where it is surely faster or the only one."""
    used: str | None = None
    before: int | None = None
    for length, cells in by_length.items():
        able = [subject for subject in subjects if _runs(subject, cells)]
        chosen = used
        if able and (used is None or _cannot(used, cells)):
            first = used is None and subjects[0] in able
            chosen = subjects[0] if first else min(able, key=lambda name: _log_median(name, cells))
        if chosen is not None:
            chosen = _surely_fastest(chosen, able, cells)
        if chosen is not None and chosen != used:
            yield Choice(start=_start(chosen, used, before, length, by_length), use=chosen)
            used = chosen
        before = length


def _runs(subject: str, cells: Sequence[_Cell]) -> bool:
    """True where a subject was timed in all of these cells."""
    return all(
        subject in cell and cell[subject].status == "ok" and cell[subject].samples for cell in cells
    )


def _cannot(subject: str, cells: Sequence[_Cell]) -> bool:
    """True where a subject is known not to run one of these cells; unmeasured is not known."""
    return any(subject in cell and cell[subject].status != "ok" for cell in cells)


def _log_median(subject: str, cells: Sequence[_Cell]) -> float:
    """Mean over cells of the logarithm of a subject's median."""
    medians = [median(cell[subject].samples) for cell in cells]
    return sum(log(middle) if middle > 0 else -np.inf for middle in medians) / len(medians)


def _surely_fastest(used: str, able: Sequence[str], cells: Sequence[_Cell]) -> str:
    """The fastest of those that surely beat `used`; `used` where none does."""
    if used not in able:
        return used
    gains = {
        subject: gain
        for subject in able
        if subject != used
        and (gain := _gain(subject, used, cells)) is not None
        and all(_surely_below(subject, used, cell) for cell in cells)
    }
    return min(gains, key=gains.__getitem__) if gains else used


def _gain(subject: str, used: str, cells: Sequence[_Cell]) -> float | None:
    """Mean over cells of the median log ratio; None where two are not a pair."""
    if not (_runs(subject, cells) and _runs(used, cells)):
        return None
    if any(why_unpaired(cell[subject], cell[used]) for cell in cells):
        return None
    return float(np.mean([np.median(log_ratios(cell[subject], cell[used])) for cell in cells]))


def _surely_below(subject: str, used: str, cell: _Cell) -> bool:
    drawn = resampled_medians([log_ratios(cell[subject], cell[used])])
    return interval(drawn)[1] < 0


def _start(chosen: str, used: str | None, before: int | None, length: int, by_length: dict) -> int:
    """The length to use `chosen` from: interpolated where both were paired on either side."""
    if used is None or before is None:
        return length
    if _cannot(used, by_length[length]):
        return before + 1
    ahead, behind = (_gain(chosen, used, by_length[at]) for at in (before, length))
    if ahead is None or behind is None or ahead < 0:
        return length
    share = ahead / (ahead - behind)
    crossing = exp(log(before) + share * (log(length) - log(before)))
    return min(max(ceil(crossing), before + 1), length)
