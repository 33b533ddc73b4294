"""Head dimension by length, subjects side by side: the table of a profile that fits on a page."""

from collections.abc import Iterator, Sequence
from typing import Any

from assay.reports.bench_table import TRAINING_PEAK, size
from assay.reports.numerals import number
from assay.reports.speed_rows import BACKWARD, FORWARD, Row
from assay.reports.table import Entry, Table

_AXES = ("head_dim", "query_length", "key_length")
_MOST_SUBJECTS = 4  # beside each other; more go into a table of their own
_NOTE = (
    "Medians; an ending such as OOM stands where its time would. {memory} is {meaning}, above the "
    "inputs."
)
_MEANINGS = {
    "saved_bytes": ("Saved", "what forward keeps for backward"),
    TRAINING_PEAK: ("Peak", "the most that forward and backward take"),
}


def pivots(rows: Sequence[Row]) -> list[Table]:
    """A table for each dtype, mask, batch and heads that has more than one head dimension."""
    groups: dict[tuple[tuple[str, Any], ...], list[Row]] = {}
    for row in rows:
        rest = tuple((k, v) for k, v in row.workload.spec.items() if k not in _AXES)
        groups.setdefault(rest, []).append(row)
    return [
        table
        for rest, found in groups.items()
        if len({row.workload.spec.get("head_dim") for row in found}) > 1
        for table in _tables(dict(rest), found)
    ]


def _tables(rest: dict[str, Any], rows: Sequence[Row]) -> Iterator[Table]:
    subjects = list(dict.fromkeys(row.subject for row in rows))
    memory = next((m for m in _MEANINGS if any(row.value(m) for row in rows)), None)
    for start in range(0, len(subjects), _MOST_SUBJECTS):
        yield _table(rest, rows, subjects[start : start + _MOST_SUBJECTS], memory)


def _table(
    rest: dict[str, Any], rows: Sequence[Row], subjects: Sequence[str], memory: str | None
) -> Table:
    places: dict[tuple[int, int], dict[str, Row]] = {}
    for row in rows:
        spec = row.workload.spec
        key = (spec.get("head_dim", 0), spec.get("key_length", 0))
        places.setdefault(key, {}).setdefault(row.subject, row)
    backward = any(row.value(BACKWARD) is not None for row in rows)
    name, meaning = _MEANINGS[memory] if memory else ("", "")
    columns = ["head_dim", "length"]
    for subject in subjects:
        columns.append(f"{subject} forward (ms)")
        columns += [f"{subject} backward (ms)"] if backward else []
        columns += [f"{subject} {name.lower()}"] if memory else []
    return Table(
        title=f"Head dimension by length: {_said(rest)}",
        columns=tuple(columns),
        rows=tuple(
            (
                Entry(text=str(dim), value=dim),
                Entry(text=f"{length:,}", value=length),
                *(
                    entry
                    for subject in subjects
                    for entry in _cells(found.get(subject), backward, memory)
                ),
            )
            for (dim, length), found in sorted(places.items())
        ),
        note=_NOTE.format(memory=name, meaning=meaning) if memory else "Medians.",
    )


def _cells(row: Row | None, backward: bool, memory: str | None) -> Iterator[Entry]:
    if row is None:
        absent = Entry(text="not asked")
        yield from [absent] * (1 + backward + bool(memory))
        return
    yield _time(row, FORWARD)
    if backward:
        yield _time(row, BACKWARD)
    if memory:
        yield size(row, memory)


def _time(row: Row, metric: str) -> Entry:
    value = row.value(metric)
    return row.absent(metric) if value is None else Entry(text=number(value), value=value)


def _said(rest: dict[str, Any]) -> str:
    mask = "causal" if rest.get("causal") else "full"
    heads = f"{rest.get('heads')}/{rest.get('kv_heads')} heads"
    known = ("batch", "heads", "kv_heads", "dtype", "causal", "seed")
    more = [f"{name} {value}" for name, value in rest.items() if name not in known]
    return ", ".join((f"batch {rest.get('batch')}", heads, str(rest.get("dtype")), mask, *more))
