"""Tables on a screen: numerals, widths, and rows that are counted or put together."""

import subprocess
import sys
from io import StringIO

import pytest
from rich.console import Console

from assay.host import CHECKOUT
from assay.records.check_answer import Answer
from assay.records.run import RunFolder
from assay.reports import terminal
from assay.reports.contents import read_contents
from assay.reports.numerals import number, size_in_bytes, tick
from assay.reports.run_tables import condensed
from assay.reports.table import Entry, Table, shorten_workloads
from assay.reports.tables import cache_quality

EVIDENCE = CHECKOUT / "evidence"


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


def words_of(table):
    texts = [*table.columns, *(entry.text for row in table.entries for entry in row)]
    return {word for text in texts for word in text.split()}


@pytest.mark.parametrize("letters", [20, 45, 70])
def test_no_word_is_broken_in_80_columns(letters):
    """A reason beside a workload's name was printed in a column of ten letters, or 160 wide."""
    name = "b1_h1_kv1_q2_k1_d16_causal_float32_seed39"[:letters].ljust(letters, "x")
    reason = "the causal mask is aligned top-left where Sq != Sk and the mask is causal; " * 3
    columns = ("status", "stage", "cell", "subject", "ratio", "reason")
    row = ("failed", "suite", name, "wrong", Entry(text="must be 0", value=1e38), reason)
    table = Table(title="T", columns=columns, rows=(row, row))
    console = Console(file=StringIO(), width=80)
    terminal.show(table, console)
    shown = console.file.getvalue()
    assert max(map(len, shown.splitlines())) <= 80
    assert not words_of(table) - set(shown.split()) and shown.count(name) == 2


def test_a_pipe_is_80_letters_wide_unless_columns_says_otherwise(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert terminal.console().width == 80
    monkeypatch.setenv("COLUMNS", "123")
    assert terminal.console().width == 123


def test_a_note_stays_whole_where_columns_are_left_out():
    """A sentence went with a column that shared its first word, though it was about others too."""
    row = ("sdpa", Entry(text="1", value=1.0), Entry(text="2", value=2.0), "y" * 60)
    note = (
        "Of all times these are medians. Both passes count. TFLOP/s and tokens/s are of the first."
    )
    columns = ("subject", "tokens/s", "TFLOP/s", "of ceiling")
    table = Table(title="T", columns=columns, rows=(row,), spare=("of ceiling",), note=note)
    console = Console(file=StringIO(), width=30)
    terminal.show(table, console)
    shown = console.file.getvalue()
    assert "ceiling" not in shown and " ".join(note.split()) in " ".join(shown.split())


def test_the_command_of_an_answer_is_one_line_to_copy():
    line = "FAIL  my: " + "the mask is wrong " * 5 + "; repeat: assay check my.py --workload b1_h8"
    console = Console(file=StringIO(), width=80)
    terminal.show_answer(Answer(word="FAIL", lines=(line,)), console)
    assert console.file.getvalue() == f"{line}\n"


def test_the_entries_of_a_long_table_are_made_once(monkeypatch):
    """They were made anew for every row: a plan of a thousand cells took a minute and a half."""
    made = []
    monkeypatch.setattr(Entry, "__post_init__", lambda entry: made.append(entry))
    table = Table(title="t", columns=("a", "b"), rows=tuple((f"r{n}", "x") for n in range(300)))
    terminal.show(table, Console(file=StringIO(), width=80))
    assert len(made) <= 3 * 2 * 300


def test_all_columns_of_the_quality_of_caches_are_on_80_letters():
    """Perplexity, KL, needles and the worst head were left out, and explained all the same."""
    records = read_contents(RunFolder(path=EVIDENCE / "kv-quality-float32-h200")).records
    shown = ""
    for table in cache_quality.tables("cache_quality", records):
        console = Console(file=StringIO(), width=80)
        terminal.show(table, console)
        header = console.file.getvalue().splitlines()[2]
        assert all(column in header for column in table.columns), header
        shown += console.file.getvalue()
    for name in ("perplexity", "KL", "margin", "worst head", "needles", "band", "same choice"):
        assert name in shown
    assert "share of the dense cache's, in float32" in " ".join(shown.split())
