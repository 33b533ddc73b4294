"""Time relative to the first subject, by key length: below the line at 1 is faster.

Ratios are medians over rounds with a 95 % bootstrap interval, so a bar that touches the line shows
no difference.
"""

from assay.laws.crossover import crossovers
from assay.records.schema import Record
from assay.reports.chart import Chart
from assay.reports.panels import Panel, Point, charts_of, length_chart
from assay.reports.speed_rows import BACKWARD, FORWARD, Row

PLACE = 20
_KINDS = {
    FORWARD: ("crossover", "Forward time relative to"),
    BACKWARD: ("crossover_backward", "Backward time relative to"),
}


def draw(records: list[Record]) -> list[Chart]:
    """A chart for each pass and panel in which something was measured beside the first subject."""
    return charts_of(records, _KINDS, _chart)


def _chart(panel: Panel, metric: str, kind: str, title: str) -> Chart | None:
    first = next((row.ratios[metric].against for row in panel.rows if metric in row.ratios), None)
    if first is None:
        return None
    timed = [row.records[metric] for row in panel.rows if metric in row.records]
    crossings = [
        f"{compared.subject} {compared.words}"
        for compared in crossovers(timed, metric=metric, against=first)
        if compared.outcome == "crosses"
    ]
    return length_chart(
        panel,
        kind,
        f"{title} {first}",
        f"time / time of {first} (ratio)",
        lambda row: _point(row, metric),
        metric=metric,
        notes=["Below 1 is faster; medians over rounds, with 95 % intervals", *crossings],
        limit=1.0,
        limit_name=first,
        log_y=True,
    )


def _point(row: Row, metric: str) -> Point | None:
    ratio = row.ratios.get(metric)
    if ratio is None or not ratio.value:
        return None
    return Point(y=ratio.value, low=ratio.low, high=ratio.high)
