"""Tables on a terminal."""

from dataclasses import replace

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from assay.reports.style import TERMINAL_TONES
from assay.reports.table import Entry, Table, shorten_workloads

# Where nothing says how wide the reader's screen is, a line may be this long.
_FILE_WIDTH = 160
_WIDEST = 10_000  # for measuring what a table would like


def console() -> Console:
    """Standard output: as wide as the terminal, or wide enough for tables in a file or pipe."""
    found = Console()
    return found if found.is_terminal else Console(width=_FILE_WIDTH)


def show(
    table: Table, console: Console, *, exact_names: bool = False, most_rows: int | None = None
) -> None:
    """Print a table, then its note and the reasons its numbers refer to.

    Column names are broken at their underscores, so that many columns fit, unless they are to be
    exact. What does not fit the screen is left out: first the columns that a table calls spare,
    then the smaller print. Of rows beyond `most_rows` only the number is told.
    """
    table = shorten_workloads(table)
    beyond = len(table.rows) - (most_rows or len(table.rows))
    if beyond > 0:
        table = replace(table, rows=table.rows[:most_rows])
    table = _fitting(table, console, exact_names)
    reasons = table.reasons
    console.print(_drawn(table, reasons, exact_names))
    more = f"{beyond:,} more rows are in the report." if beyond > 0 else ""
    told = (f"[{index}] {reason}" for reason, index in reasons.items())
    for line in filter(None, (more, table.note, *told)):
        console.print(Text(line, style="dim"))


def _drawn(table: Table, reasons: dict[str, int], exact_names: bool) -> RichTable:
    drawn = RichTable(
        title=Text(table.title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD
    )
    rows = table.entries
    for index, column in enumerate(table.columns):
        name = column if exact_names else column.replace("_", " ")
        numeric = any(row[index].value is not None for row in rows)
        drawn.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(_text(cell, reasons) for cell in row))
    return drawn


def _fitting(table: Table, console: Console, exact_names: bool) -> Table:
    """The first of some thinner and thinner tables that fits, if the table says how to thin it."""
    if not table.spare:
        return table
    thinner = [table]
    for column in table.spare:
        thinner.append(_without(thinner[-1], column))
    plain = tuple(tuple(replace(cell, detail="") for cell in row) for row in thinner[-1].entries)
    thinner.append(replace(thinner[-1], rows=plain))
    unbounded = console.options.update(max_width=_WIDEST)
    for candidate in thinner:
        drawn = _drawn(candidate, candidate.reasons, exact_names)
        if Measurement.get(console, unbounded, drawn).maximum <= console.width:
            return candidate
    return thinner[-1]


def _without(table: Table, column: str) -> Table:
    if column not in table.columns:
        return table
    at = table.columns.index(column)
    columns = table.columns[:at] + table.columns[at + 1 :]
    rows = tuple(row[:at] + row[at + 1 :] for row in table.rows)
    return replace(table, columns=columns, rows=rows)


def _text(cell: Entry, reasons: dict[str, int]) -> Text:
    text = Text(cell.text, style=TERMINAL_TONES.get(cell.tone, ""))
    if cell.detail:
        text.append(f" ({cell.detail})", style="dim")
    if cell.needs_reason:
        text.append(f" [{reasons[cell.hint]}]", style="dim")
    return text
