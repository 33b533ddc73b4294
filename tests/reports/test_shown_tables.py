"""Tables on a screen: numerals, widths, and rows that are counted or put together."""

import subprocess
import sys
from io import StringIO

import pytest
from rich.console import Console

from assay.reports import terminal
from assay.reports.numerals import number, size_in_bytes, tick
from assay.reports.run_tables import condensed
from assay.reports.table import Entry, Table, shorten_workloads


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (1234.5678, "1,235"),
        (16777216.0, "16,777,216"),
        (0.123456, "0.1235"),
        (1.23456e-7, "1.23e-7"),
        (-2.5, "-2.500"),
        (3.2e12, "3.20e12"),
    ],
)
def test_numbers_read_well(value, text):
    assert number(value) == text


def test_sizes_and_ticks():
    assert (size_in_bytes(0), size_in_bytes(3 << 29)) == ("0 B", "1.500 GiB")
    assert (tick(0.02), tick(1000.0), tick(5e-5)) == ("0.02", "1,000", "5.00e-5")


def test_terminal_shows_text_as_it_is_and_every_reason():
    table = Table(title="[b]T[/b]", columns=("x",), rows=((Entry(text="—", hint="why [red]"),),))
    console = Console(file=StringIO(), width=60)
    terminal.show(table, console)
    shown = console.file.getvalue()
    assert "[b]T[/b]" in shown and "— [1]" in shown and "[1] why [red]" in shown


def test_tables_and_terminal_load_no_drawing_library():
    code = (
        "import sys, assay.reports.run_tables, assay.reports.terminal\n"
        "assert not {'plotly', 'matplotlib', 'numpy', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("width", "columns"), [(200, 4), (60, 3), (24, 2)])
def test_a_narrow_screen_leaves_out_what_a_table_can_spare(width, columns):
    row = ("sdpa", Entry(text="1.000", detail="0.900–1.100", value=1.0), "x" * 12, "y" * 60)
    names = ("subject", "time", "kernel", "source")
    table = Table(title="T", columns=names, rows=(row,), spare=("source", "kernel"))
    console = Console(file=StringIO(), width=width)
    terminal.show(table, console)
    shown = console.file.getvalue()
    assert sum(name in shown for name in names) == columns
    assert max(map(len, shown.splitlines())) <= width and "1.000" in shown


def test_rows_beyond_a_screen_are_counted():
    rows = tuple((str(n),) for n in range(100, 200))
    console = Console(file=StringIO(), width=60)
    terminal.show(Table(title="T", columns=("n",), rows=rows), console, most_rows=10)
    shown = console.file.getvalue()
    assert "109" in shown and "110" not in shown and "90 more rows" in shown


def test_outcomes_that_end_alike_are_one_row():
    rows = tuple((Entry(text="oom"), "bench", f"k{n}", "eager", "no room") for n in range(9))
    columns = ("status", "stage", "cell", "subject", "reason")
    many = condensed(Table(title="", columns=columns, rows=rows)).entries
    assert [row[2].text for row in many] == ["k0 and 8 more"]
    few = condensed(Table(title="", columns=columns, rows=rows[:2])).entries
    assert [row[2].text for row in few] == ["k0", "k1"]


def test_one_workload_is_said_once():
    table = Table(title="", columns=("workload", "x"), rows=(("b1_q8_k8", "1"), ("b1_q8_k8", "2")))
    short = shorten_workloads(table)
    assert short.columns == ("x",) and "b1_q8_k8" in short.note
    two = Table(title="", columns=("workload", "x"), rows=(("b1_q8_k8", "1"), ("b1_q9_k9", "2")))
    assert [row[0].text for row in shorten_workloads(two).entries] == ["s8", "s9"]
