"""Peak memory above the inputs over key length, of forward and of forward and backward."""

from assay.records.schema import Record
from assay.reports.chart import Chart
from assay.reports.memory_table import TOTALS, parts
from assay.reports.numerals import size_in_bytes
from assay.reports.panels import Point, chart, panels
from assay.reports.speed_rows import Row

PLACE = 40
_MIB = 1 << 20
_KINDS = {
    "forward": ("memory", "Peak memory, forward"),
    "both": ("memory_training", "Peak memory, forward and backward"),
}


def draw(records: list[Record]) -> list[Chart]:
    """A log-log chart for each peak and panel; straight lines are power laws."""
    found = panels(records)
    charts = [
        chart(
            panel,
            *_KINDS[name],
            "peak above the inputs (MiB)",
            lambda row, metric=metric: _point(row, metric),
            metric=metric,
            log_y=True,
        )
        for metric, name in TOTALS.items()
        for panel in found
    ]
    return [one for one in charts if one]


def _point(row: Row, metric: str) -> Point | None:
    value = row.value(metric)
    if not value or value < 0:
        return None
    told = [f"{name} {size_in_bytes(int(part))}" for name, part in parts(row, metric).items()]
    return Point(y=value / _MIB, hint=", ".join([size_in_bytes(int(value)), *told]))
