"""TFLOP/s over key length, forward and backward; hovering a point shows tokens/s and GB/s too.

The line across is the matmul rate measured on this machine.
"""

from assay.records.schema import Record
from assay.reports.chart import Chart
from assay.reports.numerals import number
from assay.reports.panels import Panel, Point, charts_of, length_chart
from assay.reports.speed_rows import BACKWARD, FORWARD, Row

PLACE = 10
_KINDS = {
    FORWARD: ("throughput", "Forward throughput"),
    BACKWARD: ("throughput_backward", "Backward throughput"),
}


def draw(records: list[Record]) -> list[Chart]:
    """A chart for each pass and panel whose FLOPs are known."""
    return charts_of(records, _KINDS, _chart)


def _chart(panel: Panel, metric: str, kind: str, title: str) -> Chart | None:
    ceiling = compute_ceiling(panel, metric)
    return length_chart(
        panel,
        kind,
        title,
        "throughput (TFLOP/s)",
        lambda row: _point(row, metric),
        metric=metric,
        notes=["FLOPs by formula over the median time", *panel.other_clocks(metric)],
        limit=ceiling,
        limit_name=f"matmul rate measured here: {number(ceiling)}" if ceiling else "",
    )


def compute_ceiling(panel: Panel, metric: str = FORWARD) -> float | None:
    """TFLOP/s of matrix products that shares were taken of; None where it is not known."""
    rates = (row.rates[metric] for row in panel.rows if metric in row.rates)
    known = [r.tflops / r.compute_share for r in rates if r.tflops and r.compute_share]
    return max(known, default=None)


def _point(row: Row, metric: str) -> Point | None:
    rate = row.rates.get(metric)
    if rate is None or rate.tflops is None:
        return None
    more = [
        f"{number(rate.tokens_per_s)} tokens/s" if rate.tokens_per_s else "",
        f"{number(rate.gbps)} GB/s" if rate.gbps else "",
        f"{100 * rate.compute_share:.0f} % of the matmul rate" if rate.compute_share else "",
        rate.bound or "",
    ]
    return Point(y=rate.tflops, hint=", ".join(filter(None, more)))
