"""Noise of the machine: false alarms, and slowdowns that comparisons detect."""

from collections.abc import Sequence

from assay.laws.noise import MARGIN, Noise, noise_of
from assay.records.schema import Record
from assay.reports.numerals import DASH
from assay.reports.table import Entry, Table, number_entry, percent_entry, tabulate

STAGES = ("noise",)
_NOTE = (
    "A difference is real when the 99 % bootstrap interval of the median per-round ratio lies "
    f"beyond {MARGIN:.0%} on either side of 1. False alarms are comparisons of an implementation "
    "with itself that were called real; found counts the planted slowdowns that were called "
    "slower. Bounds are one-sided, 95 %. The smallest effect is the slowdown that 95 % of these "
    "comparisons would have found."
)
_ONE_PROCESS = Entry(text=DASH, hint="only one process was measured; see NOISE_PROCESSES")


def _judged(noise: Noise, rate: float) -> Entry:
    """A rate, or why there are too few comparisons for one."""
    return Entry(text=DASH, hint=noise.cannot_judge) if noise.cannot_judge else percent_entry(rate)


_COLUMNS = {
    "workload": lambda noise: noise.workload,
    "subject": lambda noise: noise.subject,
    "latency (ms)": lambda noise: number_entry(noise.latency_ms),
    "comparisons x rounds": lambda noise: f"{noise.comparisons:,} x {noise.rounds}",
    "false alarms": lambda noise: Entry(
        text=f"{noise.alarms:,} of {noise.comparisons:,}", value=noise.alarm_rate
    ),
    "rate below": lambda noise: _judged(noise, noise.alarm_bound),
    "planted": lambda noise: f"{noise.planted_share:.0%}",
    "found": lambda noise: Entry(
        text=f"{noise.detected:,} of {noise.planted:,}", value=noise.power
    ),
    "rate above": lambda noise: _judged(noise, noise.power_bound),
    "smallest effect": lambda noise: _judged(noise, noise.smallest_effect),
    "between processes": lambda noise: (
        _ONE_PROCESS if noise.between_processes is None else percent_entry(noise.between_processes)
    ),
}


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """One table with a row for each subject and workload that was compared with itself."""
    noises = noise_of(records)
    return [tabulate("Noise", noises, _COLUMNS, note=_NOTE)] if noises else []
