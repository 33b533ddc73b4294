"""Tables free of any format: made from records, then shown on a terminal, as Markdown or HTML."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from assay.laws.quantiles import quartiles
from assay.records.foreign_text import visible
from assay.records.schema import Measurement, Record
from assay.records.verdicts import EXACTLY
from assay.reports.numerals import DASH, number, size_in_bytes

NO_RECORD = "no record of this metric"  # the reason of an absence

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of a table: its text, the small print after it, its sort key and its reason."""

    text: str
    detail: str = ""
    value: float | None = None  # the sort key; None sorts as text
    hint: str = ""  # the reason of an absence or failure, else the instrument
    tone: str = ""  # a status, where it is to stand out
    whole: str = ""  # the text in a file, where `text` is shortened
    unit: str = ""  # of the value in a file, where its column's name has none

    def __post_init__(self) -> None:
        for name in ("text", "detail", "hint", "whole"):
            object.__setattr__(self, name, visible(getattr(self, name)))

    @property
    def needs_reason(self) -> bool:
        """True where a reader must see the hint even if nothing can be hovered."""
        return bool(self.hint) and (self.text == DASH or self.tone not in ("", "ok"))


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns and rows of texts or Entries. A unit stands in brackets after its column's name."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Entry | str, ...], ...]
    note: str = ""
    spare: tuple[str, ...] = ()  # columns that a narrow screen leaves out, those first
    detail: bool = False  # a terminal shows it only if asked; a report always does
    whole: "Table | None" = None  # for files, where names of workloads are shortened here

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", visible(self.title))
        object.__setattr__(self, "note", visible(self.note))
        object.__setattr__(self, "columns", tuple(map(visible, self.columns)))

    @cached_property
    def entries(self) -> list[list[Entry]]:
        """The rows with every text as an Entry."""
        return [[c if isinstance(c, Entry) else Entry(text=c) for c in row] for row in self.rows]

    @cached_property
    def reasons(self) -> dict[str, int]:
        """Each distinct reason of an absence or failure, with the number that refers to it."""
        hints = (entry.hint for row in self.entries for entry in row if entry.needs_reason)
        return {hint: index for index, hint in enumerate(dict.fromkeys(hints), start=1)}

    @cached_property
    def numeric(self) -> list[bool]:
        """For each column, True where one of its entries sorts as a number."""
        rows = self.entries
        return [any(row[i].value is not None for row in rows) for i in range(len(self.columns))]

    def without(self, *columns: str) -> "Table":
        """The table less some of its columns."""
        kept = [i for i, column in enumerate(self.columns) if column not in columns]
        return replace(
            self,
            columns=tuple(self.columns[i] for i in kept),
            rows=tuple(tuple(row[i] for i in kept) for row in self.rows),
        )


def tabulate(
    title: str,
    items: Iterable[T],
    columns: Mapping[str, Callable[[T], Entry | str]],
    *,
    note: str = "",
    spare: tuple[str, ...] = (),
) -> Table:
    """A row for each item, with a column for each function of it."""
    rows = tuple(tuple(entry_of(item) for entry_of in columns.values()) for item in items)
    return Table(title=title, columns=tuple(columns), rows=rows, note=note, spare=spare)


def number_entry(value: float) -> Entry:
    return Entry(text=number(value), value=value)


def percent_entry(share: float) -> Entry:
    return Entry(text=f"{share:.2%}", value=share, unit="fraction")


def size_entry(count: float, *, detail: str = "", hint: str = "") -> Entry:
    """A number of bytes, which may be negative."""
    text = f"{'-' if count < 0 else ''}{size_in_bytes(abs(int(count)))}"
    return Entry(text=text, detail=detail, value=count, hint=hint, unit="B")


def shorten_workloads(table: Table) -> Table:
    """The table with what all its workload names share moved into the note."""
    if "workload" not in table.columns or len(table.rows) < 2:
        return table
    column = table.columns.index("workload")
    workloads = [row[column].text for row in table.entries]
    if len(set(workloads)) == 1:
        note = f"Every row is of {workloads[0]}. {table.note}" if workloads[0] else table.note
        return replace(table.without("workload"), note=note.strip())
    names = [_with_joined_lengths(workload).split("_") for workload in workloads]
    shared = [part for part in names[0] if all(part in name for name in names)]
    short = ["_".join(part for part in name if part not in shared) for name in names]
    if not shared or not all(short):
        return table
    rows = tuple(
        (*row[:column], text, *row[column + 1 :])
        for row, text in zip(table.rows, short, strict=True)
    )
    note = f"Every workload has {' '.join(shared)}. {table.note}"
    return replace(table, rows=rows, note=note.strip())


def _with_joined_lengths(name: str) -> str:
    """A workload's name with s128 for q128_k128, the other way to write it."""
    return re.sub(r"(?<![a-z0-9])q(\d+)_k\1(?!\d)", r"s\1", name)


def value_entry(record: Measurement) -> Entry:
    """A record's value with the quartiles of its samples, or a dash with the reason."""
    tone = "" if record.status == "ok" else record.status
    if record.value is None:
        return Entry(text=DASH, hint=record.reason or "", tone=tone)
    detail = ""
    if record.samples:
        spread = quartiles(record.samples)
        detail = f"{number(spread.low)}–{number(spread.high)}, n {spread.count}"
    hint = record.reason or (f"source: {record.source}" if record.source else "")
    exact = record.unit == "ratio" and record.value > EXACTLY
    text = "must be 0" if exact else number(record.value)
    return Entry(text=text, detail=detail, value=record.value, hint=hint, tone=tone)


def workload_or_cell(record: Record) -> str:
    """The name of a record's workload, or of its cell where it has none."""
    return record.workload.name if record.workload else record.cell
