"""Tables on a terminal."""

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from assay.reports.style import TERMINAL_TONES
from assay.reports.tables import Cell, Table


def show(table: Table, console: Console) -> None:
    """Print a table, then its note and the reasons its numbers refer to."""
    reasons = table.reasons
    drawn = RichTable(
        title=Text(table.title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD
    )
    rows = table.cells
    for index, column in enumerate(table.columns):
        numeric = any(row[index].value is not None for row in rows)
        drawn.add_column(Text(column), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(_text(cell, reasons) for cell in row))
    console.print(drawn)
    for line in (table.note, *(f"[{index}] {reason}" for reason, index in reasons.items())):
        if line:
            console.print(Text(line, style="dim"))


def _text(cell: Cell, reasons: dict[str, int]) -> Text:
    text = Text(cell.text, style=TERMINAL_TONES.get(cell.tone, ""))
    if cell.detail:
        text.append(f" ({cell.detail})", style="dim")
    if cell.needs_reason:
        text.append(f" [{reasons[cell.hint]}]", style="dim")
    return text
