"""Tables of noise and of changes between runs."""

from collections.abc import Sequence

from assay.laws.noise import MARGIN, noise_of
from assay.laws.regression import Change
from assay.records.schema import Record
from assay.reports.numerals import DASH, number
from assay.reports.table import Entry, Table

_NOTE = (
    "A difference is real when the 99 % bootstrap interval of the median per-round ratio lies "
    f"beyond {MARGIN:.0%} on either side of 1. False alarms are comparisons of an implementation "
    "with itself that were called real; found are those with a planted slowdown. Bounds are "
    "one-sided, 95 %. The smallest effect is what 95 % of these comparisons would have found."
)
_CHANGES = (
    "Now over then, with a 99 % interval; where another subject was timed beside it in both runs, "
    "its change is taken off. Slower is what lies wholly beyond the threshold with and without "
    "that: 1 %, or three standard deviations between processes of one program, as measured now."
)


def noise_table(records: Sequence[Record]) -> Table | None:
    """What the stage `noise` found; None where it found nothing."""
    rows = [
        (
            one.workload,
            one.subject,
            _number(one.latency_ms),
            f"{one.comparisons:,} x {one.rounds}",
            Entry(text=f"{one.alarms:,} ({one.alarm_rate:.2%})", value=one.alarm_rate),
            _percent(one.alarm_bound),
            f"{one.planted_share:.0%}",
            Entry(text=f"{one.detected:,} of {one.planted:,}", value=one.power),
            _percent(one.power_bound),
            _percent(one.smallest_effect),
            (
                _percent(one.between_processes)
                if one.between_processes is not None
                else Entry(text=DASH, hint="one process; see NOISE_PROCESSES")
            ),
        )
        for one in noise_of(records)
    ]
    columns = (
        "workload",
        "subject",
        "latency (ms)",
        "comparisons x rounds",
        "false alarms",
        "rate below",
        "planted",
        "found",
        "rate above",
        "smallest effect",
        "between processes",
    )
    return Table(title="Noise", columns=columns, rows=tuple(rows), note=_NOTE) if rows else None


def change_table(changes: Sequence[Change], run: str) -> Table:
    """Each metric that two runs have in common."""
    rows = [
        (
            change.workload,
            change.metric,
            change.subject,
            change.control or DASH,
            _number(change.ratio),
            f"{number(change.low)}–{number(change.high)}",
            (
                Entry(text=DASH, hint="its noise was not measured, so nothing is called slower")
                if change.threshold is None
                else _percent(change.threshold)
            ),
            Entry(text="slower", tone="failed") if change.slower else "not slower",
        )
        for change in changes
    ]
    columns = (
        "workload",
        "metric",
        "subject",
        "relative to",
        "ratio",
        "99 % interval",
        "threshold",
        "verdict",
    )
    return Table(title=f"Since {run}", columns=columns, rows=tuple(rows), note=_CHANGES)


def _number(value: float) -> Entry:
    return Entry(text=number(value), value=value)


def _percent(share: float) -> Entry:
    return Entry(text=f"{share:.2%}", value=share)
