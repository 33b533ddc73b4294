"""A result as a table: for pandas, polars, Arrow, CSV and Markdown, a prompt and a notebook."""

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import CannotRunHere
from assay.installation import how_to_add

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from assay.reports.chart import Chart
    from assay.reports.table import Table

SHOWN_ROWS = 12  # at a prompt; a notebook shows MOST_ROWS
MOST_ROWS = 60
_WIDTH = 100
_CELL = "padding:.15em .6em;text-align:{};white-space:nowrap"


class Tabular(ABC):
    """Conversions that all results share. A result has columns; it may have an answer in words, a
    table for people that differs from its columns, and charts."""

    @abstractmethod
    def _columns(self) -> Mapping[str, Sequence[Any]]:
        """The values of each column, with every digit."""

    def _answer(self) -> list[str]:
        """The lines that a reader can act on."""
        return []

    def _table(self) -> "Table":
        """The table for people: the columns as text, unless a result has a better one."""
        return table_of(self._columns())

    def _charts(self) -> "list[Chart]":
        return []

    def to_pandas(self) -> "pandas.DataFrame":
        """A pandas DataFrame with every digit."""
        return _package("pandas").DataFrame(dict(self._columns()))

    def to_polars(self) -> "polars.DataFrame":
        """A polars DataFrame with every digit."""
        return _package("polars").DataFrame(dict(self._columns()), strict=False)

    def to_arrow(self) -> "pyarrow.Table":
        """An Arrow table with every digit."""
        return _package("pyarrow").table(dict(self._columns()))

    def to_csv(self, path: str | Path | None = None) -> str:
        """CSV with every digit, also written to `path` where one is given."""
        columns, text = self._columns(), io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        return _written(text.getvalue(), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """The table for people as Markdown, also written to `path` where one is given."""
        from assay.reports.markdown import table_lines

        table = self._table()
        return _written("\n".join(table_lines(table, titled=bool(table.title))), path)

    def __repr__(self) -> str:
        return "\n".join([*self._answer(), _as_text(self._table())]).rstrip()

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """The answer, the table and the first figure, for a notebook."""
        from html import escape

        lines = [f"<p><b>{escape(line)}</b></p>" for line in self._answer()]
        return "".join([*lines, _as_html(self._table()), *_figures(self._charts())])


class TableResult(Tabular):
    """A table of a run's report."""

    def __init__(self, table: "Table") -> None:
        self.table = table

    def _table(self) -> "Table":
        return self.table

    def _columns(self) -> dict[str, list[Any]]:
        from assay.reports.table_files import frame_columns

        return frame_columns(self.table)

    def to_csv(self, path: str | Path | None = None) -> str:
        """CSV with every digit and the reason of every absence, as `assay publish` writes it."""
        from assay.reports.table_files import csv_text

        return _written(csv_text(self.table).decode(), path)


def table_of(columns: Mapping[str, Sequence[Any]], note: str = "") -> "Table":
    """Columns as text."""
    from assay.reports.table import Entry, Table

    def entry(value: object) -> Entry:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return Entry(text=_text(value), value=float(value) if number else None)

    entries = ([entry(value) for value in values] for values in columns.values())
    rows = tuple(zip(*entries, strict=True))
    return Table(title="", columns=tuple(columns), rows=rows, note=note)


def distinct(names: Sequence[str]) -> list[str]:
    """Names of columns, a second one of a name numbered: a frame has each name once."""
    own: list[str] = []
    for name in names:
        free = (f"{name}_{number}" for number in range(2, len(names) + 2))
        own.append(name if name not in own else next(n for n in free if n not in own))
    return own


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise CannotRunHere(
            f"{name} is not installed here; install it with `pip install {name}`, or all of "
            f"pandas, polars and pyarrow with `{how_to_add('data')}`"
        ) from error


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        from assay.records.durable import write_atomically

        write_atomically(Path(path), text.encode(errors="backslashreplace"))
    return text


def _text(value: object) -> str:
    from assay.reports.numerals import DASH, number

    if value is None:
        return DASH
    return number(value) if isinstance(value, float) else str(value)


def _as_text(table: "Table") -> str:
    from dataclasses import replace

    from rich.console import Console

    from assay.reports.terminal import show

    if not table.columns:
        return ""
    beyond = len(table.rows) - SHOWN_ROWS
    text = io.StringIO()
    shown = replace(table, rows=table.rows[:SHOWN_ROWS])
    show(shown, Console(file=text, width=_WIDTH, emoji=False), exact_names=True)
    more = [f"and {beyond:,} more rows"] if beyond > 0 else []
    return "\n".join([*(line.rstrip() for line in text.getvalue().splitlines()), *more])


def _as_html(table: "Table") -> str:
    """A table without any script; names from outside cannot add to its markup."""
    from html import escape

    from assay.records.foreign_text import visible

    if not table.columns:
        return ""
    aligned = [_CELL.format("right" if numeric else "left") for numeric in table.numeric]
    head = "".join(
        f'<th style="{look}">{escape(column)}</th>'
        for look, column in zip(aligned, table.columns, strict=True)
    )
    rows = (
        "".join(
            f'<td style="{look}" title="{escape(entry.hint)}">{escape(_whole(entry))}</td>'
            for look, entry in zip(aligned, row, strict=True)
        )
        for row in table.entries[:MOST_ROWS]
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    title = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    beyond = len(table.rows) - MOST_ROWS
    note = f"and {beyond:,} more rows. " * (beyond > 0) + table.note
    after = f"<p><small>{escape(visible(note))}</small></p>" if note else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{after}"


def _whole(entry: Any) -> str:
    return f"{entry.text} ({entry.detail})" if entry.detail else entry.text


def _figures(charts: "Sequence[Chart]") -> list[str]:
    """The first figure as a picture within the page; none where matplotlib is not installed."""
    from base64 import b64encode
    from html import escape

    from assay.plugins import installed
    from assay.reports import printed, style
    from assay.reports.chart import grouped
    from assay.reports.extensions import render_all

    if not charts or not installed("matplotlib"):
        return []
    colours = style.colours(series.subject for chart in charts for series in chart.series)
    group = grouped(charts)[0]
    pictures, problems = render_all([group], lambda each: printed.png(each, colours))
    return [
        *(f"<p>{escape(problem)}</p>" for problem in problems),
        *(
            f'<img style="max-width:100%;width:650px" alt="{escape(group.title)}" '
            f'src="data:image/png;base64,{b64encode(picture).decode()}">'
            for picture in pictures.values()
        ),
    ]
