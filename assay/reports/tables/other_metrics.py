"""Metrics that no other table of these stages names, such as those of a user's probe."""

from collections.abc import Sequence
from dataclasses import replace

from assay.records.schema import Record
from assay.reports.other_metrics import other_metrics
from assay.reports.table import Table
from assay.reports.tables import results

STAGES = ("bench", "layers", "decode")
PLACE = 70


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """One table of the stage, with a column for each metric; none without any."""
    metrics = other_metrics([r for r in records if r.stage == stage])
    own = [r for r in records if r.stage == stage and r.metric in metrics]
    title = "Other metrics" if stage == STAGES[0] else f"Other metrics of {stage}"
    return [replace(table, title=title) for table in results.tables(stage, own)]
