"""Speed of every subject on every workload, with its ratio, rate, peak and kernel."""

from collections.abc import Sequence

from assay.records.schema import Record
from assay.reports.numerals import DASH, number
from assay.reports.ratios import baseline
from assay.reports.speed_rows import (
    BACKWARD,
    FORWARD,
    TRAINING,
    Row,
    row_table,
    speed_rows,
)
from assay.reports.table import Entry, Table

STAGES = ("bench", "layers")
PLACE = 10
_NOTE = (
    "Times are medians over rounds, with their quartiles; forward, backward alone, and both. "
    "A ratio is the median of per-round ratios of time, with a 95 % bootstrap interval: below 1 is "
    "faster. TFLOP/s, batches/s and tokens/s are of the forward pass, its FLOPs by formula; the "
    "share is of the ceiling measured here that its intensity says applies. Peak memory is above "
    "the inputs."
)


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """One table of all rows of a stage, those that ended without a number among them."""
    rows = speed_rows(stage, records)
    if not any(row.endings or set(row.records) & {FORWARD, BACKWARD, TRAINING} for row in rows):
        return []
    first = baseline([r for r in records if r.stage == stage], FORWARD)
    columns = {
        "forward (ms)": lambda row: row.time(FORWARD),
        f"over {first}": lambda row: row.over(first, FORWARD),
        "backward (ms)": lambda row: row.time(BACKWARD),
        "both (ms)": lambda row: row.time(TRAINING),
        "TFLOP/s": lambda row: _rate(row, "tflops"),
        "of ceiling": _share,
        "batches/s": lambda row: _rate(row, "batches_per_s"),
        "tokens/s": lambda row: _rate(row, "tokens_per_s"),
        "peak forward": lambda row: row.size("forward_peak_bytes"),
        "peak both": lambda row: row.size("training_peak_bytes"),
        "kernel": Row.kernel,
    }
    return [
        row_table(
            "Speed",
            rows,
            columns,
            note=_NOTE,
            spare=(
                "kernel",
                "batches/s",
                "tokens/s",
                "peak both",
                "of ceiling",
                "both (ms)",
                "peak forward",
                "TFLOP/s",
            ),
            always=("forward (ms)",),
        )
    ]


def _rate(row: Row, quantity: str) -> Entry:
    rate = row.rates.get(FORWARD)
    if rate is None:
        return row.absent(FORWARD)
    value = getattr(rate, quantity)
    if value is None:
        return Entry(text=DASH, hint=rate.reason or "")
    return Entry(text=number(round(value) if value >= 1e4 else value), value=value)


def _share(row: Row) -> Entry:
    rate = row.rates.get(FORWARD)
    if rate is None:
        return row.absent(FORWARD)
    if rate.share is None:
        return Entry(text=DASH, hint=rate.reason or "")
    return Entry(
        text=f"{100 * rate.share:.0f} %",
        detail=rate.bound or "",
        value=rate.share,
        unit="fraction",
        hint=rate.suspect or "",
        tone="failed" if rate.suspect else "",
    )
