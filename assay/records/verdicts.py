"""Which records speak of correctness, for those who time and for those who tell."""

from assay.records.model_metrics import MODELS
from assay.records.schema import CELL_SECONDS, Record, Status

# How the metrics of a check begin that is made within a cell of another stage.
_WITHIN = ("error_over_budget_", "accuracy")


def is_verdict(record: Record) -> bool:
    """Whether a record says if an implementation is right on the record's workload."""
    return record.stage == "check" or record.metric.startswith(_WITHIN)


def is_expected(stage: str, status: Status) -> bool:
    """Whether it is no news: most models lack what some gate is about."""
    return status == "ok" or (stage == MODELS and status == "unsupported")


def is_wrong(record: Record) -> bool:
    """Whether it ended in a way that no number may be built on."""
    return record.status in ("failed", "oom", "timeout") and record.metric != CELL_SECONDS
