"""Slowdowns since an earlier run; used by `assay bench --against RUN`.

Rounds of two runs are not paired, so a whole run may be off: by the clock, by how memory is laid
out. Where both runs timed another subject in the same cell, its change is taken off; a slowdown
must show with and without that, because the other may have become faster. It must exceed what
processes of one and the same program differ by, as the stage `noise` measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.laws.noise import MARGIN, TAIL_PERCENT, Noise, noise_of
from assay.laws.pairs import PAIRED_METRICS, interval, resampled_medians
from assay.records.schema import Record

METRICS = (*PAIRED_METRICS, "graph_ms")
_SPREADS = 3.0  # standard deviations between processes that a change must exceed

_Key = tuple[str, str, str]  # workload, metric, subject


@dataclass(frozen=True, kw_only=True)
class Change:
    """One metric of one subject now over then, with a 99 % interval, the change of `control` taken
    off; `plain_low` is the lower bound without that. `threshold` is what both bounds must lie
    beyond; None where the noise was not measured."""

    subject: str
    workload: str
    metric: str
    ratio: float
    low: float
    high: float
    plain_low: float
    control: str | None
    threshold: float | None

    @property
    def slower(self) -> bool:
        return self.threshold is not None and min(self.low, self.plain_low) > 1 + self.threshold


@dataclass(frozen=True, kw_only=True)
class LostTime:
    """A time that an earlier run has and a later lacks; status and reason are those of the record
    that stands in its place, None without one: it was not asked for."""

    subject: str
    workload: str
    metric: str
    status: str | None
    reason: str | None


def lost_times(now: Sequence[Record], then: Sequence[Record]) -> list[LostTime]:
    """Every time of an earlier run that a later has not: out of memory, refused, not asked for."""
    new = _timed(now)
    return [_lost(key, now) for key in _timed(then) if key not in new]


def _lost(key: _Key, now: Sequence[Record]) -> LostTime:
    """Of a time that was not taken there is a record of its probe, or of all probes of the cell
    with a plus between: latency for latency_ms."""
    workload, metric, subject = key
    names = {metric, metric.removesuffix("_ms"), "load"}
    records = (
        record
        for record in now
        if record.stage == "bench"
        and record.workload
        and (record.workload.name, record.subject) == (workload, subject)
        and names.intersection(record.metric.split("+"))
    )
    instead = next(records, None)
    reason = instead.reason or "too few samples to compare" if instead else None
    status = instead.status if instead else None
    return LostTime(subject=subject, workload=workload, metric=metric, status=status, reason=reason)


def changes(now: Sequence[Record], then: Sequence[Record]) -> list[Change]:
    """Every metric that both runs timed."""
    new, old = _timed(now), _timed(then)
    noises = {(noise.subject, noise.workload): noise for noise in noise_of(now)}
    return [_change(key, new, old, noises) for key in new if key in old]


def _change(
    key: _Key,
    new: dict[_Key, Record],
    old: dict[_Key, Record],
    noises: dict[tuple[str, str], Noise],
) -> Change:
    workload, metric, subject = key
    # The first other subject that both runs timed on this workload: the baseline, as a rule.
    others = (k for k in new if k[:2] == key[:2] and k[2] != subject and k in old)
    control = next(others, None)
    medians = _ratios(new[key], old[key])
    plain_low, _ = interval(medians, tail_percent=TAIL_PERCENT)
    if control:
        medians = medians / _ratios(new[control], old[control])
    low, high = interval(medians, tail_percent=TAIL_PERCENT)
    return Change(
        subject=subject,
        workload=workload,
        metric=metric,
        ratio=float(np.median(medians)),
        low=low,
        high=high,
        plain_low=plain_low,
        control=control[2] if control else None,
        threshold=_threshold(noises.get((subject, workload))),
    )


def _timed(records: Sequence[Record]) -> dict[_Key, Record]:
    return {
        (record.workload.name, record.metric, record.subject): record
        for record in records
        if record.stage == "bench"
        and record.metric in METRICS
        and record.status == "ok"
        and record.workload
        and len(record.samples) > 1
    }


def _ratios(new: Record, old: Record) -> np.ndarray:
    """Medians now over medians then, [resamples]; the same draw for the same record."""
    now, then = resampled_medians([np.array(new.samples), np.array(old.samples)]).T
    return now / then


def _threshold(noise: Noise | None) -> float | None:
    if noise is None or noise.between_processes is None:
        return None
    # Two runs differ by the root of two such spreads.
    between = float(np.expm1(_SPREADS * np.sqrt(2) * noise.between_processes))
    return max(MARGIN, between)
