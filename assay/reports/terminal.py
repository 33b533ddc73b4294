"""Tables on a terminal."""

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from assay.reports.style import TERMINAL_TONES
from assay.reports.tables import Entry, Table, shortened

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


def _text(cell: Entry, reasons: dict[str, int]) -> Text:
    text = Text(cell.text, style=TERMINAL_TONES.get(cell.tone, ""))
    if cell.detail:
        text.append(f" ({cell.detail})", style="dim")
    if cell.needs_reason:
        text.append(f" [{reasons[cell.hint]}]", style="dim")
    return text
