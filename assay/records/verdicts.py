"""Records about correctness, as timing and reports read them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from assay.records.schema import (
    CELL_METRICS,
    CELL_SECONDS,
    MODELS,
    NOT_EXAMINED,
    Measurement,
    Record,
    Status,
)

SUITES = ("suite", "decode_suite")  # the stages that judge on cases of their own
CHECKING = (*SUITES, "check")  # the stages that judge and measure no cost
# The metric of an error as a share of what the accuracy check allows; the tensor's name follows.
ERROR_OVER_BUDGET = "error_over_budget_"
# An error of so many budgets is one of a value that must be exact: its budget is next to nothing.
EXACTLY = 1e30
# Metrics of a check that is made within a cell of another stage begin like this.
_WITHIN = (ERROR_OVER_BUDGET, "accuracy")
# Metrics that say inside which limits an implementation was checked, and under which further
# conditions; no verdicts themselves.
LIMITS, CONDITIONS = "limits", "conditions"
BESIDE = (LIMITS, CONDITIONS)  # what a table of verdicts says below it
REACH = "reach"  # the largest workloads that were compared, as data
NO_VERDICTS = (*BESIDE, REACH)
# Marks in `data`: a failure that those who hold a GPU may have brought about, and one of which
# nothing was learned because others held it.
DEVICE_ERROR: dict[str, Any] = {"device_error": True}
HELD: dict[str, Any] = {"held_by_others": True}
# Statuses that no number may be built on.
WRONG = ("failed", "oom", "timeout")
# Statuses of what was not run: this machine could not, or the subject does not take it.
_NOT_RUN = ("skipped", "refused", "unsupported")
_CEILINGS = "host"  # the stage that measures for others, which may do without it
TRAIN, NEVER_TRAINED = "train", "never trained"
NOT_BELIEVED = "not believed"  # begins the reason of a number that cannot be true
# The end of the reason of a probe with failing cases.
_FAILING = re.compile(r"; (\d+ of \d+) cases fail(?:, (\d+) not run)?$")
# The reason of a probe that had no time for all its cases; its status is timeout.
_INCOMPLETE = re.compile(r"(?:^|: )incomplete: (\d+ of \d+) cases run")

_UNDECLARED = "undeclared: "
_UNSUPPORTED = re.compile(r"(?:^|; )(\d+) cases? unsupported: ")
_PARTIAL = re.compile(r"(\d+ of \d+) cases run in its time")


def incomplete(ran: int, planned: int) -> str:
    """The reason of a probe that ran only some of its planned cases, so says nothing."""
    return f"incomplete: {ran} of {planned} cases run in its time; give more with --budget-s"


def undeclared(text: str) -> str:
    """The reason of a probe that finds nothing wrong but what a file should declare."""
    return f"{_UNDECLARED}{text}"


def is_undeclared(record: Measurement) -> bool:
    """True for a failure that a declaration would mend: the values are right."""
    return record.status == "failed" and (record.reason or "").startswith(_UNDECLARED)


def partial(ran: int, planned: int) -> str:
    """The reason of a probe that had no time for all its cases, but for enough of them."""
    return f"{ran} of {planned} cases run in its time"


def cases_of_all(record: Measurement) -> str | None:
    """Cases that a probe ran of all it planned, as `14 of 60`; None where it ran all of them."""
    match = _PARTIAL.match(record.reason or "")
    return match[1] if match else None


def cases_run(record: Measurement) -> str | None:
    """Cases that an incomplete probe ran, as `3 of 60`; None for any other record."""
    match = _INCOMPLETE.search(record.reason or "") if record.status == "timeout" else None
    return match[1] if match else None


def failing(count: int, ran: int, not_run: int = 0) -> str:
    """The end of the reason of a probe with failing cases; enough of them end it early."""
    return f"; {count} of {ran} cases fail" + (f", {not_run} not run" if not_run else "")


def cases_failing(record: Measurement) -> str | None:
    """Cases that fail a probe, as `3 of 60`; None where none does or a single one was run."""
    match = _FAILING.search(record.reason or "")
    return match[1] if match else None


def count_cases(record: Measurement) -> tuple[int, int]:
    """Cases that a probe judged, and those it was asked to; a check of one workload is a case."""
    judged, reason = len(record.samples) or int(record.value is not None), record.reason or ""
    if match := _FAILING.search(reason):
        judged = int(match[1].split()[-1])
        return judged, judged + int(match[2] or 0)
    if planned := cases_run(record) or cases_of_all(record):
        return judged, int(planned.split()[-1])
    refused = _UNSUPPORTED.search(reason)
    return judged, judged + int(refused[1]) if refused else max(1, judged)


def unsupported(count: int, reason: str | None) -> str:
    """The reason of a probe whose cases are refused, or the end of it where some are."""
    return f"{count} case{'' if count == 1 else 's'} unsupported: {reason}"


def cases_unsupported(record: Measurement) -> tuple[str, str] | None:
    """Number of cases of a probe that refuses all of them, and the reason without that number,
    which probes share; None for any other record."""
    match = _UNSUPPORTED.match(record.reason or "") if record.status == "unsupported" else None
    return (match[1], match.string[match.end() :]) if match else None


@dataclass(frozen=True, kw_only=True)
class SkippedCells:
    """The cells of a stage in which nothing was run, each with the reason, of how many."""

    stage: str
    reasons: Mapping[str, str]
    cells: int

    @property
    def is_all(self) -> bool:
        return len(self.reasons) == self.cells

    def __str__(self) -> str:
        fact = NEVER_TRAINED if self.stage == TRAIN else f"stage {self.stage} skipped"
        first = next(iter(self.reasons.values()))
        return f"{fact}: {len(self.reasons):,} of {self.cells:,} cells: {first}"


def skipped_cells(records: Iterable[Record]) -> list[SkippedCells]:
    """Stages with cells in which nothing was run; of ceilings only where no other stage is."""
    stages: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        if record.metric == CELL_SECONDS or record.metric not in (*CELL_METRICS, *NO_VERDICTS):
            stages.setdefault(record.stage, {}).setdefault(record.cell, []).append(record)
    skipped = []
    for stage, cells in stages.items():
        idle = {n: own[0].reason or "" for n, own in cells.items() if all(map(_is_idle, own))}
        if idle and (stage != _CEILINGS or len(stages) == 1):
            skipped.append(SkippedCells(stage=stage, reasons=idle, cells=len(cells)))
    return skipped


def _is_idle(record: Record) -> bool:
    return record.status in _NOT_RUN and not is_unbelievable(record)


def may_be_others(record: Measurement) -> bool:
    """True for a failure that those who hold the device may have brought about."""
    return not DEVICE_ERROR.keys().isdisjoint(record.data or {})


def was_held(record: Measurement) -> bool:
    """True where nothing was learned because others held the device."""
    return record.status == "refused" and bool({*HELD, *DEVICE_ERROR} & {*(record.data or {})})


def is_verdict(record: Record) -> bool:
    """True for a record that says whether an implementation is right on a workload."""
    return record.stage == "check" or record.metric.startswith(_WITHIN)


def is_expected(stage: str, status: Status) -> bool:
    """True where there is nothing to look at: most models lack what some gate is about."""
    return status == "ok" or (stage == MODELS and status == "unsupported")


def is_gap(record: Measurement) -> bool:
    """True for a gate that applies and could not look."""
    return record.status == "unsupported" and (record.reason or "").startswith(NOT_EXAMINED)


def without_time(records: Iterable[Record]) -> list[str]:
    """Stages that had no time for any result: something ended for want of it and nothing is ok."""
    statuses: dict[str, set[Status]] = {}
    for record in records:
        if record.metric not in CELL_METRICS:
            statuses.setdefault(record.stage, set()).add(record.status)
    return [stage for stage, seen in statuses.items() if "timeout" in seen and "ok" not in seen]


def timed_out(records: Iterable[Record]) -> dict[str, str]:
    """Subjects without any result of a stage that measures and whose time ran out in it, each with
    the reason. In a check, and a training, that is a failure."""
    seen: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        judged = record.stage in (*CHECKING, MODELS, TRAIN)
        if record.subject and record.metric not in CELL_METRICS and not judged:
            seen.setdefault((record.stage, record.subject), []).append(record)
    late = {key: own for key, own in seen.items() if not any(r.status == "ok" for r in own)}
    ends = ((name, r) for (_, name), own in late.items() for r in own if r.status == "timeout")
    return {name: record.reason or "" for name, record in ends}


def is_unbelievable(record: Record) -> bool:
    """True for a number that was refused because it cannot be true."""
    return record.status == "refused" and (record.reason or "").startswith(NOT_BELIEVED)


def is_wrong(record: Record) -> bool:
    """True for a record that no number may be built on."""
    return record.status in WRONG and record.metric not in CELL_METRICS
