"""Tables of a report as CSV, with numbers in full and the reason of every absence."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from assay.records.durable import make_folder, write_atomically
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
    """UTF-8 with a column for each number, one for what stands beside it, one for its reason."""
    columns = [_spread(table, index) for index in range(len(table.columns))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([title for column in columns for title, _ in column])
    for row in range(len(table.rows)):
        writer.writerow([texts[row] for column in columns for _, texts in column])
    return text.getvalue().encode(errors="backslashreplace")


def _spread(table: Table, index: int) -> list[tuple[str, Sequence[str]]]:
    """A column of the table as columns of the file: title and texts of each."""
    title, entries = table.columns[index], [row[index] for row in table.entries]
    return [(title, [_plain(entry) for entry in entries]), *_beside(title, entries)]


def _beside(title: str, entries: list[Entry]) -> Iterator[tuple[str, Sequence[str]]]:
    if any(entry.detail for entry in entries):
        yield f"{title}: spread", [entry.detail for entry in entries]
    if any(entry.needs_reason for entry in entries):
        reasons = [entry.hint if entry.needs_reason else "" for entry in entries]
        yield f"{title}: reason", reasons


def _plain(entry: Entry) -> str:
    return entry.text if entry.value is None else repr(entry.value)
