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
    screen = Console(emoji=False)  # random:llama: is a name, no picture
    return screen if screen.is_terminal else Console(width=_FILE_WIDTH, emoji=False)


def show(
    table: Table, console: Console, *, exact_names: bool = False, most_rows: int | None = None
) -> None:
    """Print a table, then its note and the reasons its numbers refer to.

    Column names are broken at their underscores, so that many columns fit, unless they are to be
    exact. What does not fit the screen is left out: first the columns that a table calls spare,
    then the small print. Rows beyond `most_rows` are only counted.
    """
    table = shorten_workloads(table)
    beyond = len(table.rows) - (most_rows or len(table.rows))
    if beyond > 0:
        table = replace(table, rows=table.rows[:most_rows])
    table = _fitting(table, console, exact_names)
    console.print(_rich_table(table, exact_names))
    more = f"{beyond:,} more rows are in the report." if beyond > 0 else ""
    reasons = (f"[{index}] {reason}" for reason, index in table.reasons.items())
    for line in filter(None, (more, table.note, *reasons)):
        console.print(Text(line, style="dim"))


def _rich_table(table: Table, exact_names: bool) -> RichTable:
    title = Text(table.title, style="bold")
    rich_table = RichTable(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column, numeric in zip(table.columns, table.numeric, strict=True):
        name = Text(column if exact_names else column.replace("_", " "))
        rich_table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    reasons = table.reasons
    for row in table.entries:
        rich_table.add_row(*(_text(entry, reasons) for entry in row))
    return rich_table


def _fitting(table: Table, console: Console, exact_names: bool) -> Table:
    """The first of some thinner and thinner tables that fits, if the table says how to thin it."""
    if not table.spare:
        return table
    thinner = [table]
    for column in table.spare:
        thinner.append(thinner[-1].without(column))
    plain = tuple(tuple(replace(each, detail="") for each in row) for row in thinner[-1].entries)
    thinner.append(replace(thinner[-1], rows=plain))
    unbounded = console.options.update(max_width=_WIDEST)
    for candidate in thinner:
        drawn = _rich_table(candidate, exact_names)
        if Measurement.get(console, unbounded, drawn).maximum <= console.width:
            return candidate
    return thinner[-1]


def _text(entry: Entry, reasons: dict[str, int]) -> Text:
    text = Text(entry.text, style=TERMINAL_TONES.get(entry.tone, ""))
    if entry.detail:
        text.append(f" ({entry.detail})", style="dim")
    if entry.needs_reason:
        text.append(f" [{reasons[entry.hint]}]", style="dim")
    return text
