"""Tables on a terminal: as wide as it is, without breaking a word.

A table that is too wide leaves out columns that it can spare, then its small print; then texts are
wrapped; and where even that does not fit, each row is a block of lines.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from assay.records.check_answer import FAIL, INCOMPLETE, NOT_RUN, PASS, Answer
from assay.reports.style import TERMINAL_TONES
from assay.reports.table import Entry, Table, shorten_workloads

# Where nothing says how wide the reader's screen is, a line is this long.
_FILE_WIDTH = 80
_WORD_TONES = {PASS: "ok", FAIL: "failed", INCOMPLETE: "failed", NOT_RUN: "refused"}
_GAP = 2  # letters between columns
_NARROWEST = 20  # letters of a text that is wrapped


def console() -> Console:
    """Standard output: as wide as the terminal, as COLUMNS says, or 80 letters."""
    screen = Console(emoji=False)  # random:llama: is a name, no picture
    if screen.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return screen
    return Console(width=_FILE_WIDTH, emoji=False)


def show(
    table: Table, console: Console, *, exact_names: bool = False, most_rows: int | None = None
) -> None:
    """Print a table, then its note and the reasons its numbers refer to.

    Column names are broken at their underscores, so that many columns fit, unless they are to be
    exact. Rows beyond `most_rows` are only counted.
    """
    table = shorten_workloads(table)
    beyond = len(table.rows) - (most_rows or len(table.rows))
    if beyond > 0:
        table = replace(table, rows=table.rows[:most_rows])
    names = table.columns
    if not exact_names:
        table = replace(table, columns=tuple(name.replace("_", " ") for name in names))
        table = replace(table, spare=tuple(name.replace("_", " ") for name in table.spare))
    fitted, widths = _fitting(table, console.width)
    if table.title:
        console.print(Text(f"\n{table.title}", style="bold"))
    console.print(_rich_table(fitted, widths) if widths else _stacked(fitted))
    more = f"{beyond:,} more rows are in the report." if beyond > 0 else ""
    reasons = (f"[{index}] {reason}" for reason, index in fitted.reasons.items())
    for line in filter(None, (more, table.note, *reasons)):
        console.print(Text(line, style="dim"))


def show_answer(answer: Answer, console: Console) -> None:
    """Print the lines of an answer, each whole, so that a command in it can be copied."""
    for line in answer.brief:
        word = next((word for word in _WORD_TONES if line.startswith(word)), "")
        text = Text(word, style=TERMINAL_TONES[_WORD_TONES[word]] if word else "")
        console.print(text.append(line.removeprefix(word)), style="bold", soft_wrap=True)


def _fitting(table: Table, width: int) -> tuple[Table, list[int]]:
    """The first of some thinner and thinner tables that fits, and the widths of its columns; none
    where its rows must be stacked."""
    thinner = [table]
    for column in table.spare:
        thinner.append(thinner[-1].without(column))
    candidates = [*thinner, *(_without_details(thinner[-1]) if table.spare else ())]
    for candidate in candidates:
        natural = [wanted for _, wanted in _column_widths(candidate)]
        if _total(natural) <= width:
            return candidate, natural
    for candidate in (thinner[-1], candidates[-1]):
        if widths := _wrapped_widths(_column_widths(candidate), width):
            return candidate, widths
    return thinner[-1], []


def _without_details(table: Table) -> Iterator[Table]:
    """The table without the small print of its first column that has some, of two, and so on."""
    for i in range(len(table.columns)):
        rows = [[*row[:i], replace(row[i], detail=""), *row[i + 1 :]] for row in table.entries]
        table = replace(table, rows=tuple(map(tuple, rows)))
        yield table


def _column_widths(table: Table) -> list[tuple[int, int]]:
    """Of each column the least width that breaks no word (and no number from its small print),
    and the one that wraps nothing; names of columns may be wrapped."""
    reasons, widths = table.reasons, []
    for i, name in enumerate(table.columns):
        texts = [_text(row[i], reasons).plain for row in table.entries]
        words = texts if table.numeric[i] else [word for text in texts for word in text.split()]
        header = _longest(name.split())
        body = _longest(texts)
        widths.append((max(header, _longest(words)), max(header, body, min(len(name), body + 8))))
    return widths


def _wrapped_widths(columns: Sequence[tuple[int, int]], width: int) -> list[int]:
    """Widths that fit where texts are wrapped, none of them very narrow; empty where none do."""
    widths = [min(wanted, max(least, _NARROWEST)) for least, wanted in columns]
    if _total(widths) > width:
        return []
    for i, (_, wanted) in sorted(enumerate(columns), key=lambda each: each[1][1]):
        widths[i] = min(wanted, widths[i] + width - _total(widths))
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _longest(texts: Sequence[str]) -> int:
    return max(map(cell_len, texts), default=0)


def _rich_table(table: Table, widths: Sequence[int]) -> RichTable:
    rich_table = RichTable(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for column, numeric, width in zip(table.columns, table.numeric, widths, strict=True):
        side = "right" if numeric else "left"
        rich_table.add_column(Text(column), justify=side, overflow="fold", width=width)
    for row in table.entries:
        rich_table.add_row(*(_text(entry, table.reasons) for entry in row))
    return rich_table


def _stacked(table: Table) -> RichTable:
    """Each row as lines of a name and a value, an empty line between rows."""
    grid = RichTable.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for number, row in enumerate(table.entries):
        if number:
            grid.add_row("", "")
        for name, entry in zip(table.columns, row, strict=True):
            if entry.text:
                grid.add_row(Text(name), _text(entry, table.reasons))
    return grid


def _text(entry: Entry, reasons: dict[str, int]) -> Text:
    text = Text(entry.text, style=TERMINAL_TONES.get(entry.tone, ""))
    if entry.detail:
        text.append(f" ({entry.detail})", style="dim")
    if entry.needs_reason:
        text.append(f" [{reasons[entry.hint]}]", style="dim")
    return text
