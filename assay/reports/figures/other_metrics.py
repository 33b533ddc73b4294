"""Metrics that no other figure or table names, over key length: those of a user's probe."""

from dataclasses import replace

from assay.laws.quantiles import quartiles
from assay.records.schema import Record
from assay.reports.chart import Chart
from assay.reports.other_metrics import other_metrics
from assay.reports.panels import Panel, Point, charts_of, length_chart
from assay.reports.speed_rows import Row

PLACE = 70
MOST_DRAWN = 20  # metrics; a page of hundreds takes minutes to draw, and nobody looks through it


def draw(records: list[Record]) -> list[Chart]:
    """A chart for each such metric and panel, of the first metrics where there are many."""
    units = other_metrics(records)

    def chart(panel: Panel, metric: str, kind: str, title: str) -> Chart | None:
        label = f"{metric} ({units[metric]})" if units[metric] else metric
        return length_chart(
            panel, kind, title, label, lambda row: _point(row, metric), metric=metric
        )

    drawn = list(units)[:MOST_DRAWN]
    charts = charts_of(records, {metric: (metric, metric) for metric in drawn}, chart)
    if charts and len(units) > len(drawn):
        more = f"{len(units) - len(drawn):,} further metrics are in the table alone"
        charts[-1] = replace(charts[-1], note="; ".join(filter(None, [charts[-1].note, more])))
    return charts


def _point(row: Row, metric: str) -> Point | None:
    record, value = row.records.get(metric), row.value(metric)
    if record is None or value is None:
        return None
    if len(record.samples) < 2:
        return Point(y=value)
    spread = quartiles(record.samples)
    return Point(y=value, low=min(value, spread.low), high=max(value, spread.high))
