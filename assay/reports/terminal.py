"""Tables on a terminal."""

from dataclasses import replace

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from assay.reports.style import TERMINAL_TONES
from assay.reports.tables import Entry, Table

# Where nothing says how wide the reader's screen is, a line may be this long.
_FILE_WIDTH = 160


def console() -> Console:
    """Standard output: as wide as the terminal, or wide enough for tables in a file or pipe."""
    found = Console()
    return found if found.is_terminal else Console(width=_FILE_WIDTH)


def show(table: Table, console: Console, *, exact_names: bool = False) -> None:
    """Print a table, then its note and the reasons its numbers refer to.

    Column names are broken at their underscores, so that many columns fit, unless they are to be
    exact.
    """
    table = shortened(table)
    reasons = table.reasons
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
    console.print(drawn)
    for line in (table.note, *(f"[{index}] {reason}" for reason, index in reasons.items())):
        if line:
            console.print(Text(line, style="dim"))


def shortened(table: Table) -> Table:
    """The table with the parts that all its workload names share said once, in the note."""
    if "workload" not in table.columns or len(table.rows) < 2:
        return table
    column = table.columns.index("workload")
    names = [row[column].text.split("_") for row in table.entries]
    shared = [part for part in names[0] if all(part in name for name in names)]
    rest = ["_".join(part for part in name if part not in shared) for name in names]
    if not shared or not all(rest):
        return table
    rows = tuple(
        (*row[:column], text, *row[column + 1 :])
        for row, text in zip(table.rows, rest, strict=True)
    )
    note = f"Every workload has {' '.join(shared)}. {table.note}"
    return replace(table, rows=rows, note=note.strip())


def _text(cell: Entry, reasons: dict[str, int]) -> Text:
    text = Text(cell.text, style=TERMINAL_TONES.get(cell.tone, ""))
    if cell.detail:
        text.append(f" ({cell.detail})", style="dim")
    if cell.needs_reason:
        text.append(f" [{reasons[cell.hint]}]", style="dim")
    return text
