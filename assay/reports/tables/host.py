"""The machine of a run: what it reached, and what its instruments made of known quantities."""

from collections.abc import Sequence

from assay.records.schema import CALIBRATION, CELL_METRICS, Measurement, Record
from assay.reports.table import Entry, Table, value_entry

STAGES = ("host",)
DETAIL = True
_LOST = {
    "bandwidth": "all ceilings and shares of them",
    "clock": "all times, ratios and rates",
    "memory": "peaks of memory",
    "saved": "bytes saved for the backward pass",
    "profiler": "names, number and times of kernels",
}
_CEILINGS_NOTE = "The best sample, then the quartiles of all and their number."
_INSTRUMENTS_NOTE = (
    "Each instrument was given a quantity that is known by other means. One that does not read it "
    "back is believed nowhere in this run: every process that uses it asks it again. Try again on "
    "a quieter machine; where it still fails, its numbers cannot be had here."
)


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """Both tables, as far as there are records."""
    own = [r for r in records if r.stage == stage and r.metric not in CELL_METRICS]
    return [table for table in (ceilings(own), instruments(own)) if table.rows]


def ceilings(measured: Sequence[Measurement]) -> Table:
    """Bandwidths and rates of each device, one in a row."""
    shown = [m for m in measured if not m.metric.startswith(CALIBRATION)]
    return Table(
        title="Measured ceilings",
        columns=("device", "ceiling", "reached", "unit", "source"),
        rows=tuple((m.subject, m.metric, value_entry(m), m.unit, m.source or "") for m in shown),
        note=_CEILINGS_NOTE,
        spare=("source",),
    )


def instruments(measured: Sequence[Measurement]) -> Table:
    """Calibrations, with what is lost where one fails."""
    shown = [m for m in measured if m.metric.startswith(CALIBRATION)]
    return Table(
        title="Instruments",
        columns=("of", "instrument", "read", "unit", "known", "believed", "how"),
        rows=tuple(
            (
                m.subject,
                m.metric.removeprefix(CALIBRATION),
                value_entry(m),
                m.unit,
                known.removeprefix("known: "),
                _belief(m),
                how.strip(),
            )
            for m in shown
            for known, _, how in [(m.source or "").partition(";")]
        ),
        note=_INSTRUMENTS_NOTE,
        spare=("how",),
    )


def _belief(measured: Measurement) -> Entry:
    if measured.status == "ok":
        return Entry(text="yes")
    lost = _LOST.get(measured.metric.removeprefix(CALIBRATION), "all of its instruments")
    return Entry(text=f"no: without {lost}", tone=measured.status)
