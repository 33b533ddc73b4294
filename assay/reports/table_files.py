"""Tables of a report as CSV, with numbers in full and the reason of every absence."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from assay.records.durable import make_folder, write_atomically
from assay.reports.numerals import DASH
from assay.reports.report import Report
from assay.reports.table import Entry, Table

_SEPARATORS = re.compile(r"[^a-z0-9]+")


def write_tables(report: Report, folder: Path) -> None:
    """Write all tables of a report into a folder."""
    make_folder(folder)
    for stem, table in named_tables(report).items():
        write_atomically(folder / f"{stem}.csv", csv_text(table))


def named_tables(report: Report) -> dict[str, Table]:
    """The tables that have rows by their file's name: results, ratios, outcomes and stages."""
    named: dict[str, Table] = {}
    for table in (*report.results, *report.ratios, report.outcomes, report.stages):
        if table.rows:
            stem = _SEPARATORS.sub("_", table.title.lower()).strip("_") or "table"
            numbers = (f"_{number}" for number in range(2, len(named) + 3))
            name = next(n for n in (stem, *(stem + x for x in numbers)) if n not in named)
            named[name] = table
    return named


def csv_text(table: Table) -> bytes:
    """UTF-8 with a column for each number, one for what stands beside it, one for its reason; names
    are whole, and those of columns have their units."""
    table = table.whole or table
    columns = [_spread(table, index) for index in range(len(table.columns))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([title for column in columns for title, _ in column])
    for row in range(len(table.rows)):
        writer.writerow([texts[row] for column in columns for _, texts in column])
    return text.getvalue().encode(errors="backslashreplace")


def frame_columns(table: Table) -> dict[str, list[Any]]:
    """Columns for a data frame: numbers as numbers, null where there is none; texts among them,
    what stands beside a number and reasons in columns of their own; names as in CSV."""
    table = table.whole or table
    columns: dict[str, list[Any]] = {}
    for index, numeric in enumerate(table.numeric):
        entries = [row[index] for row in table.entries]
        title = _titled(table.columns[index], entries)
        columns[title] = [e.value if numeric else e.whole or e.text for e in entries]
        words = [entry.text if entry.value is None else "" for entry in entries]
        if numeric and set(words) - {"", DASH}:
            columns[f"{title}: text"] = words
        columns |= {name: list(texts) for name, texts in _beside(title, entries)}
    return columns


def _spread(table: Table, index: int) -> list[tuple[str, Sequence[str]]]:
    """A column of the table as columns of the file: title and texts of each."""
    entries = [row[index] for row in table.entries]
    title = _titled(table.columns[index], entries)
    return [(title, [_plain(entry) for entry in entries]), *_beside(title, entries)]


def _titled(column: str, entries: Sequence[Entry]) -> str:
    """The name of a column, with the unit of its values where they share one."""
    units = {entry.unit for entry in entries if entry.unit}
    return f"{column} ({units.pop()})" if len(units) == 1 else column


def _beside(title: str, entries: list[Entry]) -> Iterator[tuple[str, Sequence[str]]]:
    if any(entry.detail for entry in entries):
        yield f"{title}: spread", [entry.detail for entry in entries]
    if any(entry.needs_reason for entry in entries):
        reasons = [entry.hint if entry.needs_reason else "" for entry in entries]
        yield f"{title}: reason", reasons


def _plain(entry: Entry) -> str:
    return entry.whole or entry.text if entry.value is None else repr(entry.value)
