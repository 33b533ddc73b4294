"""Time over key length, forward, backward and both, with the quartiles of the samples.

What has no time (out of memory, refused) is named below the chart, so that a curve that ends early
is not read as one that was not tried.
"""

from assay.laws.quantiles import quartiles
from assay.records.schema import Record
from assay.reports.chart import Chart
from assay.reports.panels import Point, chart, clocks, panels
from assay.reports.speed_rows import BACKWARD, FORWARD, TRAINING, Row

PLACE = 30
_KINDS = {
    FORWARD: ("latency", "Forward time"),
    BACKWARD: ("latency_backward", "Backward time"),
    TRAINING: ("latency_training", "Forward and backward time"),
    "device_ms": ("latency_kernels", "Forward time of the kernels, by the profiler"),
}


def draw(records: list[Record]) -> list[Chart]:
    """A log-log chart for each pass and panel that has a time."""
    found = panels(records)
    charts = [
        chart(
            panel,
            kind,
            title,
            "time (ms)",
            lambda row, metric=metric: _point(row, metric),
            metric=metric,
            notes=[
                "Medians, with bars from the lower to the upper quartile",
                *clocks(panel, metric),
            ],
            log_y=True,
        )
        for metric, (kind, title) in _KINDS.items()
        for panel in found
    ]
    return [one for one in charts if one]


def _point(row: Row, metric: str) -> Point | None:
    record, value = row.records.get(metric), row.value(metric)
    if record is None or value is None or min(record.samples or [value]) <= 0:
        return None
    if len(record.samples) < 2:
        return Point(y=value)
    spread = quartiles(record.samples)
    return Point(y=spread.median, low=spread.low, high=spread.high)
