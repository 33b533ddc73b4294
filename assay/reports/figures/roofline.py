"""TFLOP/s against FLOPs per byte, under the two ceilings that were measured on this machine.

Williams, Waterman and Patterson, "Roofline", 2009. FLOPs and bytes are those of the formula.
"""

from assay.records.schema import Record
from assay.reports.chart import Chart, Curve, Series
from assay.reports.figures.throughput import compute_ceiling
from assay.reports.numerals import number
from assay.reports.panels import Panel, length_of, panel_chart, panels
from assay.reports.speed_rows import FORWARD, Row

PLACE = 35
_MARGIN = 3.0  # how far the ceilings go on beyond the points
_NOTE = "Memory-bound left of the bend, compute-bound right of it"


def draw(records: list[Record]) -> list[Chart]:
    """A chart for each panel with a rate and a ceiling."""
    return [_chart(panel) for panel in panels(records) if _rated(panel) and _ceilings(panel)]


def _chart(panel: Panel) -> Chart:
    subjects = dict.fromkeys(row.subject for row in _rated(panel))
    return panel_chart(
        panel,
        "roofline",
        "Roofline, forward",
        x_label="intensity (FLOP/byte)",
        y_label="throughput (TFLOP/s)",
        log_x=True,
        log_y=True,
        round_ticks=True,
        curves=_ceilings(panel),
        series=tuple(_series(panel, subject) for subject in subjects),
        note="; ".join(filter(None, (_NOTE, panel.shared))),
    )


def _series(panel: Panel, subject: str) -> Series:
    rows = sorted((row for row in _rated(panel) if row.subject == subject), key=length_of)
    rates = [row.rates[FORWARD] for row in rows]
    return Series(
        subject=subject,
        x=tuple(rate.intensity or 0.0 for rate in rates),
        y=tuple(rate.tflops or 0.0 for rate in rates),
        hints=tuple(f"length {length_of(row):,}, {row.rates[FORWARD].bound}" for row in rows),
    )


def _ceilings(panel: Panel) -> tuple[Curve, ...]:
    """The two ceilings around their bend; none where one is not known."""
    compute = compute_ceiling(panel)
    rates = [row.rates[FORWARD] for row in _rated(panel)]
    memory = max(
        (r.gbps / r.memory_share for r in rates if r.gbps and r.memory_share), default=None
    )
    if compute is None or memory is None:
        return ()
    bend = compute / memory * 1e3  # TFLOP/s over GB/s
    intensities = [rate.intensity for rate in rates if rate.intensity]
    left, right = min(*intensities, bend) / _MARGIN, max(*intensities, bend) * _MARGIN
    return (
        Curve(name=f"read {number(memory)} GB/s", x=(left, bend), y=(left * memory / 1e3, compute)),
        Curve(name=f"compute {number(compute)} TFLOP/s", x=(bend, right), y=(compute, compute)),
    )


def _rated(panel: Panel) -> list[Row]:
    rated = [row for row in panel.rows if FORWARD in row.rates]
    return [row for row in rated if row.rates[FORWARD].tflops and row.rates[FORWARD].intensity]
