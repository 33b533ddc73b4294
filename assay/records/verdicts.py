"""Which records speak of correctness, for those who time and for those who tell."""

import re

from assay.records.schema import CELL_SECONDS, MODELS, Measurement, Record, Status

# How the metrics of a check begin that is made within a cell of another stage.
_WITHIN = ("error_over_budget_", "accuracy")


# A probe that was not given time for all its cases: a timeout that begins its reason like this.
_INCOMPLETE = re.compile(r"(?:^|: )incomplete: (\d+ of \d+) cases run")


def incomplete(ran: int, planned: int) -> str:
    """The reason of a probe that ran only some of its planned cases, so says nothing."""
    return f"incomplete: {ran} of {planned} cases run in its time; give more with --budget-s"


def cases_run(record: Measurement) -> str | None:
    """How many of how many cases an incomplete probe ran, as `3 of 60`; None for any other."""
    match = _INCOMPLETE.search(record.reason or "") if record.status == "timeout" else None
    return match[1] if match else None


def is_verdict(record: Record) -> bool:
    """Whether a record says if an implementation is right on the record's workload."""
    return record.stage == "check" or record.metric.startswith(_WITHIN)


def is_expected(stage: str, status: Status) -> bool:
    """Whether it is no news: most models lack what some gate is about."""
    return status == "ok" or (stage == MODELS and status == "unsupported")


def is_wrong(record: Record) -> bool:
    """Whether it ended in a way that no number may be built on."""
    return record.status in ("failed", "oom", "timeout") and record.metric != CELL_SECONDS
