"""Results of any stage: a row for each workload and subject, a column for each metric.

Metrics are not named here, so the records of a stage that does not exist yet are shown too.
"""

from collections.abc import Iterator, Sequence

from assay.records.schema import CELL_METRICS, Record
from assay.records.verdicts import ERROR_OVER_BUDGET
from assay.reports.numerals import DASH
from assay.reports.table import NO_RECORD, Entry, Table, value_entry, workload_or_cell

_SPREAD = "A value with samples is followed by their quartiles and their number."
_FILLED_SHARE = 0.4  # of a table's entries; with less, records are listed one by one

Metric = tuple[str, str]  # name and unit


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """One table, or none without any metric.

    Where most of it would be empty, because cells measure different things, a row for each record.
    """
    records = [r for r in records if r.stage == stage and r.metric not in CELL_METRICS]
    if not records:
        return []
    by_cell = _needs_cells(records)
    metrics = _metrics(records)
    rows: dict[tuple[str, str, int], dict[Metric, Record]] = {}
    for record in records:
        place = record.cell if by_cell else workload_or_cell(record)
        metric, repeat = (record.metric, record.unit), 0
        while metric in rows.get((place, record.subject, repeat), {}):
            repeat += 1
        rows.setdefault((place, record.subject, repeat), {})[metric] = record
    if len(records) < _FILLED_SHARE * len(rows) * len(metrics):
        return [_list_records(stage, records)]
    columns = [_column(*metric) for metric in metrics]
    checked = any(column.startswith(ERROR_OVER_BUDGET) for column in columns)
    return [
        Table(
            title=f"Results of {stage}",
            columns=("cell" if by_cell else "workload", "subject", *columns),
            rows=tuple(
                (place, subject, *_entries(values, metrics))
                for (place, subject, _), values in rows.items()
            ),
            note=" ".join(_notes(records)),
            # A table of checks can spare all but the errors as shares of what is allowed.
            spare=tuple(c for c in columns if checked and not c.startswith(ERROR_OVER_BUDGET)),
        )
    ]


def _list_records(stage: str, records: Sequence[Record]) -> Table:
    return Table(
        title=f"Results of {stage}",
        columns=("cell", "subject", "metric", "value", "unit", "source"),
        rows=tuple(
            (r.cell, r.subject, r.metric, value_entry(r), r.unit, r.source or "") for r in records
        ),
        note=_SPREAD if any(record.samples for record in records) else "",
    )


def _metrics(records: Sequence[Record]) -> list[Metric]:
    """Metrics of the columns: all but those with nothing on record beyond how something ended.

    A subject that crashed leaves one record under its probe's name, not one for each metric.
    """
    known = [r for r in records if r.value is not None or r.status == "ok"]
    return list(dict.fromkeys((r.metric, r.unit) for r in known or records))


def _entries(values: dict[Metric, Record], metrics: Sequence[Metric]) -> Iterator[Entry]:
    """An entry for each column; where a row lacks one, how its subject ended explains it."""
    endings = [r for r in values.values() if r.status != "ok" and r.value is None]
    absent = value_entry(endings[0]) if endings else Entry(text=DASH, hint=NO_RECORD)
    for metric in metrics:
        yield value_entry(values[metric]) if metric in values else absent


def _needs_cells(records: Sequence[Record]) -> bool:
    """True where workloads do not tell the rows of a stage apart, or are absent."""
    cells: dict[tuple[str, str, str], str] = {}
    for record in records:
        if record.workload is None:
            return True
        key = (record.workload.name, record.subject, record.metric)
        if cells.setdefault(key, record.cell) != record.cell:
            return True
    return False


def _column(metric: str, unit: str) -> str:
    """A metric with its unit, which is not repeated where the name ends in it."""
    return metric if not unit or metric.endswith(f"_{unit}") else f"{metric} ({unit})"


def _notes(records: Sequence[Record]) -> Iterator[str]:
    levels = sorted({record.level for record in records if record.level})
    if levels:
        yield f"Measured at level {', '.join(levels)}."
    if any(record.samples and record.value is not None for record in records):
        yield _SPREAD
    sources: dict[str, dict[str, None]] = {}
    for record in records:
        if record.source:
            sources.setdefault(record.source, {})[record.metric] = None
    if sources:
        lines = (f"{', '.join(metrics)}: {source}" for source, metrics in sources.items())
        yield f"Sources: {'; '.join(lines)}."
