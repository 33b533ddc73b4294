"""Time over key length, forward, backward and both, with the quartiles of the samples.

What has no time (out of memory, refused) is named below the chart, so that a curve that ends early
is not read as one that was not tried.
"""

from assay.laws.quantiles import quartiles
from assay.records.schema import Record
from assay.reports.chart import Chart
from assay.reports.panels import Panel, Point, charts_of, length_chart
from assay.reports.speed_rows import BACKWARD, FORWARD, TRAINING, Row

PLACE = 30
_KINDS = {
    FORWARD: ("latency", "Forward time"),
    BACKWARD: ("latency_backward", "Backward time"),
    TRAINING: ("latency_training", "Forward and backward time"),
    "device_ms": ("latency_kernels", "Forward kernel time, from the profiler"),
}


def draw(records: list[Record]) -> list[Chart]:
    """A log-log chart for each pass and panel that has a time."""
    return charts_of(records, _KINDS, _chart)


def _chart(panel: Panel, metric: str, kind: str, title: str) -> Chart | None:
    bars = "Medians, with bars from the lower to the upper quartile"
    return length_chart(
        panel,
        kind,
        title,
        "time (ms)",
        lambda row: _point(row, metric),
        metric=metric,
        notes=[bars, *panel.other_clocks(metric)],
        log_y=True,
    )


def _point(row: Row, metric: str) -> Point | None:
    record, value = row.records.get(metric), row.value(metric)
    if record is None or value is None or min(record.samples or [value]) <= 0:
        return None
    if len(record.samples) < 2:
        return Point(y=value)
    spread = quartiles(record.samples)
    return Point(y=spread.median, low=spread.low, high=spread.high)
