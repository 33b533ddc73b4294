"""Heads of every implementation."""

from assay.reports.chart import Chart, Series


def draw(records):
    heads = {r.subject: r.value for r in records if r.metric == "heads"}
    if not heads:
        return []
    series = Series(subject="heads", x=tuple(heads), y=tuple(heads.values()))
    return [
        Chart(
            name="heads", title="Heads", x_label="implementation", y_label="heads", series=(series,)
        )
    ]
