"""Sizes, side by side."""

from assay.reports.table import Table

STAGES = ("sizes",)


def tables(stage, records):
    rows = tuple((r.subject, f"{r.value:g} cm") for r in records if r.metric == "length_cm")
    return [Table(title="Sizes of things", columns=("what", "how long"), rows=rows)]
