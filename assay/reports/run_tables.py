"""The tables of a report, free of any format: made from records, shown by others.

Metrics are not named here, so a stage or a probe that does not exist yet is shown like the rest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from assay.records.schema import CELL_SECONDS, MODELS, Record
from assay.records.verdicts import is_expected
from assay.reports.contents import SEVERITY, Stage
from assay.reports.numerals import DASH, number
from assay.reports.table import Entry, Table, value_entry, workload_or_cell

_NO_RECORD = "no record of this metric"
_SPREAD = "After a value with samples stand the quartiles of the samples and their number."
_FEWEST_CONDENSED = 2  # cells that are named one by one
_FILLED_SHARE = 0.4  # of a table's entries; with less, records are listed one by one


def outcomes(records: Sequence[Record]) -> Table:
    """Every (stage, cell, subject) that is not ok, the worst first."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if not is_expected(record.stage, record.status):
            groups.setdefault((record.stage, record.cell, record.subject), []).append(record)
    rows = [(_worst(found), *key, _reasons(found)) for key, found in groups.items()]
    rows = [row for row in rows if not _told_elsewhere(row, rows)]
    rows.sort(key=lambda row: SEVERITY.index(row[0]))
    return Table(
        title="Outcomes that are not ok",
        columns=("status", "stage", "cell", "subject", "reason"),
        rows=tuple((Entry(text=row[0], tone=row[0]), *row[1:]) for row in rows),
    )


def condensed(table: Table) -> Table:
    """Outcomes with those of one subject that end alike in many cells told in one row."""
    groups: dict[tuple[str, ...], list[list[Entry]]] = {}
    for row in table.entries:
        status, stage, _, subject, reason = (cell.text for cell in row)
        groups.setdefault((status, stage, subject, reason), []).append(row)
    rows: list[tuple[Entry | str, ...]] = []
    for found in groups.values():
        if len(found) <= _FEWEST_CONDENSED:
            rows += [tuple(row) for row in found]
            continue
        cells = [row[2].text for row in found]
        told = Entry(text=f"{cells[0]} and {len(cells) - 1:,} more", hint=", ".join(cells))
        rows.append((*found[0][:2], told, *found[0][3:]))
    return replace(table, rows=tuple(rows))


def stages(found: Sequence[Stage]) -> Table:
    """How each stage ended and what its cells cost."""
    return Table(
        title="Stages",
        columns=("stage", "status", "cells", "cell time (s)", "reason"),
        rows=tuple(_stage_row(stage) for stage in found),
    )


def results(stage: str, records: Sequence[Record]) -> Table | None:
    """A row for each workload and subject, a column for each metric; None without any metric.

    Where most of that would be empty, because cells measure different things, a row for each.
    """
    shown = [r for r in records if r.stage == stage and r.metric != CELL_SECONDS]
    if not shown:
        return None
    by_cell = _needs_cells(shown)
    columns = _metrics(shown)
    rows: dict[tuple[str, str, int], dict[tuple[str, str], Record]] = {}
    for record in shown:
        place = record.cell if by_cell else workload_or_cell(record)
        metric, repeat = (record.metric, record.unit), 0
        while metric in rows.get((place, record.subject, repeat), {}):
            repeat += 1
        rows.setdefault((place, record.subject, repeat), {})[metric] = record
    if len(shown) < _FILLED_SHARE * len(rows) * len(columns):
        return _row_by_row(stage, shown)
    return Table(
        title=f"Results of {stage}",
        columns=(
            "cell" if by_cell else "workload",
            "subject",
            *(_column(metric, unit) for metric, unit in columns),
        ),
        rows=tuple(
            (place, subject, *_row_cells(values, columns))
            for (place, subject, _), values in rows.items()
        ),
        note=" ".join(_notes(shown)),
    )


def _row_by_row(stage: str, shown: Sequence[Record]) -> Table:
    return Table(
        title=f"Results of {stage}",
        columns=("cell", "subject", "metric", "value", "unit", "source"),
        rows=tuple(
            (r.cell, r.subject, r.metric, value_entry(r), r.unit, r.source or "") for r in shown
        ),
        note=_SPREAD if any(record.samples for record in shown) else "",
    )


def _metrics(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Metric and unit of each column: all but those that hold nothing beyond how something ended.

    A subject that crashed leaves one record under its probe's name, not one for each metric.
    """
    told = [r for r in records if r.value is not None or r.status == "ok"]
    return list(dict.fromkeys((r.metric, r.unit) for r in told or records))


def _row_cells(
    values: dict[tuple[str, str], Record], columns: Sequence[tuple[str, str]]
) -> Iterator[Entry]:
    """A cell for each column; where a row lacks one, how its subject ended says why."""
    endings = [r for r in values.values() if r.status != "ok" and r.value is None]
    absent = value_entry(endings[0]) if endings else Entry(text=DASH, hint=_NO_RECORD)
    for column in columns:
        yield value_entry(values[column]) if column in values else absent


def _needs_cells(records: Sequence[Record]) -> bool:
    """Whether workloads do not tell the rows of a stage apart, or are absent."""
    cells: dict[tuple[str, str, str], str] = {}
    for record in records:
        if record.workload is None:
            return True
        key = (record.workload.name, record.subject, record.metric)
        if cells.setdefault(key, record.cell) != record.cell:
            return True
    return False


def _column(metric: str, unit: str) -> str:
    """A metric with its unit, which is not said again where the name ends in it."""
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
        told = (f"{', '.join(metrics)}: {source}" for source, metrics in sources.items())
        yield f"Sources: {'; '.join(told)}."


def _stage_row(stage: Stage) -> tuple[Entry | str, ...]:
    counts = ", ".join(f"{count:,} {status}" for status, count in stage.cells.items())
    seconds = stage.seconds
    time = Entry(text=DASH, hint="no cell has ended")
    if seconds is not None:
        time = Entry(text=number(seconds), value=seconds)
    reason = stage.done.reason or "" if stage.done else ""
    if not stage.readable:
        reason = "its files cannot be read; see above"
    return (stage.name, Entry(text=stage.status, tone=stage.status), counts or "none", time, reason)


def _worst(records: Sequence[Record]) -> str:
    return min((record.status for record in records), key=SEVERITY.index)


def _reasons(records: Sequence[Record]) -> str:
    """The reason of a group; where its metrics give several, each with its metric."""
    reasons = dict.fromkeys(_with_cause(record) for record in records)
    if len(reasons) == 1:
        return next(iter(reasons))
    return "; ".join(f"{record.metric}: {_with_cause(record)}" for record in records)


def _with_cause(record: Record) -> str:
    word = "to debug" if record.stage == MODELS else "likely cause"  # a gate knows no more
    cause = f"; {word}: {record.cause}" if record.cause else ""
    return f"{record.reason or ''}{cause}"


def _told_elsewhere(row: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> bool:
    """Whether a row about a whole cell repeats what a row about one of its subjects says."""
    status, stage, cell, subject, reason = row
    return not subject and any(
        other[:3] == (status, stage, cell) and reason.removeprefix(f"{other[3]}: ") in other[4]
        for other in rows
        if other[3]
    )
