"""Peak memory above the inputs over key length, of forward and of forward and backward."""

from assay.records.schema import Record
from assay.reports.chart import Chart
from assay.reports.numerals import size_in_bytes
from assay.reports.panels import Panel, Point, charts_of, length_chart
from assay.reports.speed_rows import Row
from assay.reports.tables.memory import explained_parts

PLACE = 40
_MIB = 1 << 20
_KINDS = {
    "forward_peak_bytes": ("memory", "Peak memory, forward"),
    "training_peak_bytes": ("memory_training", "Peak memory, forward and backward"),
}


def draw(records: list[Record]) -> list[Chart]:
    """A log-log chart for each peak and panel; straight lines are power laws."""
    return charts_of(records, _KINDS, _chart)


def _chart(panel: Panel, metric: str, kind: str, title: str) -> Chart | None:
    return length_chart(
        panel,
        kind,
        title,
        "peak above the inputs (MiB)",
        lambda row: _point(row, metric),
        metric=metric,
        log_y=True,
    )


def _point(row: Row, peak: str) -> Point | None:
    value = row.value(peak)
    if not value or value < 0:
        return None
    parts = [
        f"{name} {size_in_bytes(int(part))}" for name, part in explained_parts(row, peak).items()
    ]
    return Point(y=value / _MIB, hint=", ".join([size_in_bytes(int(value)), *parts]))
