"""Speed and memory by head dimension and length, subjects side by side.

A grid over head dimensions fits on a page this way.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from assay.records.schema import Record
from assay.reports.panels import parameters
from assay.reports.speed_rows import BACKWARD, FORWARD, Row, speed_rows
from assay.reports.table import Entry, Table

STAGES = ("bench", "layers")
PLACE = 20
DETAIL = True
_AXES = ("head_dim", "query_length", "key_length")
_MOST_SUBJECTS = 4  # beside each other; more go into a table of their own
# The memory shown, the first that was measured: its name in a column and its meaning.
_MEMORY = {
    "saved_bytes": ("saved", "what forward keeps for backward"),
    "training_peak_bytes": ("peak", "the most that forward and backward take"),
}


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """Tables for each dtype, mask, batch and heads that has more than one head dimension."""
    groups: dict[tuple[tuple[str, Any], ...], list[Row]] = {}
    for row in speed_rows(stage, records):
        rest = tuple((k, v) for k, v in row.workload.spec.items() if k not in _AXES)
        groups.setdefault(rest, []).append(row)
    return [
        table
        for rest, rows in groups.items()
        if len({row.workload.spec.get("head_dim") for row in rows}) > 1
        for table in _tables(dict(rest), rows)
    ]


def _tables(rest: dict[str, Any], rows: Sequence[Row]) -> Iterator[Table]:
    subjects = list(dict.fromkeys(row.subject for row in rows))
    for start in range(0, len(subjects), _MOST_SUBJECTS):
        yield _table(rest, rows, subjects[start : start + _MOST_SUBJECTS])


def _table(rest: dict[str, Any], rows: Sequence[Row], subjects: Sequence[str]) -> Table:
    memory = next((m for m in _MEMORY if any(row.value(m) for row in rows)), None)
    backward = any(row.value(BACKWARD) is not None for row in rows)
    columns = {"forward (ms)": lambda row: row.count(FORWARD)}
    note = "Medians."
    if backward:
        columns["backward (ms)"] = lambda row: row.count(BACKWARD)
    if memory:
        name, meaning = _MEMORY[memory]
        columns[name] = lambda row: row.size(memory)
        note = (
            "Medians; an ending such as OOM stands where its time would. "
            f"{name.capitalize()} is {meaning}, above the inputs."
        )
    by_place: dict[tuple[int, int], dict[str, Row]] = {}
    for row in rows:
        spec = row.workload.spec
        key = (spec.get("head_dim", 0), spec.get("key_length", 0))
        by_place.setdefault(key, {}).setdefault(row.subject, row)
    absent = Entry(text="not planned")
    return Table(
        title=f"Head dimension by length: {', '.join(parameters(rest).values())}",
        columns=("head_dim", "length", *(f"{s} {name}" for s in subjects for name in columns)),
        rows=tuple(
            (
                Entry(text=str(dim), value=dim),
                Entry(text=f"{length:,}", value=length),
                *(
                    entry_of(by_subject[subject]) if subject in by_subject else absent
                    for subject in subjects
                    for entry_of in columns.values()
                ),
            )
            for (dim, length), by_subject in sorted(by_place.items())
        ),
        note=note,
    )
