"""The LaTeX folder of a run: whole by itself, and checked by its own Makefile."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.reports.table import Entry, Table
from assay.verify.evidence import FOLDER
from assay.verify.publish import bundle
from assay.verify.publish.paper import check, folder, latex, text

HOSTILE = r"a_%$#&{}~^\ [x]* --,,'`<|>" + '"é中🙂\n'


@pytest.fixture(scope="module")
def paper(tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("papers") / "paper"
    with bundle.temporary([FOLDER / "quickstart-cpu"]) as sealed:
        folder.write(sealed, target)
    return target


@pytest.fixture
def work(paper, tmp_path) -> Path:
    return shutil.copytree(paper, tmp_path / "work")


def make(target: Path, *goals: str, path: str = "/usr/bin:/bin") -> subprocess.CompletedProcess:
    return subprocess.run(
        ["make", "-C", str(target), f"PYTHON={sys.executable}", *goals],
        env={"PATH": path}, capture_output=True, text=True,
    )  # fmt: skip


def test_as_written_nothing_is_wrong(paper):
    assert check.check_source(paper) == []
    done = make(paper, "check")
    assert done.returncode == 0 and "PASS  0 problems" in done.stdout, done.stderr


def test_it_needs_nothing_from_outside(paper):
    for file in [*paper.rglob("*.tex"), paper / "Makefile", paper / "check.py"]:
        content = file.read_text(encoding="ascii")
        assert "import assay" not in content and str(FOLDER) not in content
    assert not [path for path in paper.rglob("*") if path.is_symlink()]


def test_every_result_has_a_table_its_data_and_a_section(paper):
    main = (paper / "main.tex").read_text()
    tables = {path.stem for path in (paper / "tables").glob("*.tex")}
    data = {path.stem for path in (paper / "data").glob("*.csv")}
    assert tables - data == {text.SETUP, text.ORIGIN} and data - tables == {"records"}
    assert all(rf"\input{{tables/{stem}}}" in main for stem in tables)
    assert len(re.findall(r"\\includegraphics", main)) == len(list(paper.glob("figures/*.png"))) > 0


def test_the_appendix_says_where_the_numbers_come_from(paper):
    origin = (paper / "tables" / f"{text.ORIGIN}.tex").read_text()
    run = json.loads((FOLDER / "quickstart-cpu" / "run.json").read_text())
    assert run["commit"] in origin and f"torch {run['versions']['torch']}" in origin
    assert "no stage of this study trains a model" in origin  # in place of a budget
    assert re.search(r"digest of the bundle & [0-9a-f]{64} ", origin)


def test_the_digest_is_that_of_the_bundle(paper, tmp_path):
    sealed = bundle.write([FOLDER / "quickstart-cpu"], tmp_path / "bundle")
    assert sealed.digest in (paper / "tables" / f"{text.ORIGIN}.tex").read_text()


@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        ("main.tex", r"\label{sec:speed}", r"\label{sec:speed}\ref{sec:nowhere}", "sec:nowhere"),
        ("tables/speed.tex", r"\label{tab:speed}", r"\label{tab:sped}", "tab:speed, which is no"),
        ("tables/speed.tex", r"\label{tab:speed}", r"\label{tab:stages}", "is there 2 times"),
        ("main.tex", r"\cite{run}", r"\cite{other}", "citation of other"),
        ("main.tex", "figures/latency", "figures/later", "latency_bench.png|later"),
        ("main.tex", "{figures/latency", "{../figures/latency", "lies outside this folder"),
        ("main.tex", r"\input{tables/speed}", r"\input{/etc/hostname}", "lies outside"),
        ("main.tex", r"\end{abstract}", "", "without its"),
        ("tables/speed.tex", r"\end{tabular}", r"\end{tabular}}", "closing brace too many"),
        ("tables/speed.tex", " & ", " ", "entries in one table"),
        ("tables/speed.tex", "eager", "ea_ger", "takes for a command"),
        ("tables/speed.tex", "eager", "ea%ger", "takes for a comment"),
        ("references.bib", "@misc{run,", "@misc{ran,", "citation of run"),
    ],
)
def test_what_was_broken_fails_the_check(work, file, old, new, problem):
    content = (work / file).read_text()
    assert old in content
    (work / file).write_text(content.replace(old, new, 1))
    done = make(work, "check")
    assert done.returncode != 0 and re.search(problem, done.stderr), done.stderr


def test_a_figure_that_was_taken_away_fails_the_check(work):
    next(work.glob("figures/*.png")).unlink()
    assert make(work, "check").returncode != 0


def test_without_tex_make_says_so_and_fails(work, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "make", "echo"):
        (tools / name).symlink_to(shutil.which(name))
    done = make(work, path=str(tools))
    assert done.returncode != 0 and "no TeX here" in done.stderr and "PASS" in done.stdout


LATEX = """#!/bin/sh
echo "$0" >> passes
echo "{log}" > main.log
echo pdf > main.pdf
"""


@pytest.mark.parametrize(
    ("log", "lost", "wrong"),
    [
        ("all is well", "", ""),
        ("LaTeX Warning: There were undefined references.", "", "undefined references"),
        ("LaTeX Warning: Citation x on page 1 undefined", "", "Citation x"),
        ("LaTeX Font Warning: Font shape T1/cmtt/bx/n undefined", "", ""),
        ("all is well", "166,419", "not in the PDF: 166,419"),
    ],
)
@pytest.mark.parametrize("engine", ["pdflatex", "lualatex"])
def test_make_takes_three_passes_and_reads_them_back(work, tmp_path, engine, log, lost, wrong):
    """TeX itself is played by scripts: what is tested is what make does with it."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / engine).write_text(LATEX.format(log=log))
    (tools / "bibtex").write_text('#!/bin/sh\necho "$0" >> passes\n')
    shown = "\n".join(
        number for file in work.glob("tables/*.tex") for number in check.numbers(file.read_text())
    )
    (tmp_path / "shown").write_text(shown.replace(lost, "") if lost else shown)
    (tools / "pdftotext").write_text(f"#!/bin/sh\ncat {tmp_path / 'shown'}\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    done = make(work, path=f"{tools}:/usr/bin:/bin")
    passes = [Path(line).name for line in (work / "passes").read_text().splitlines()]
    assert passes == [engine, "bibtex", engine, engine]
    assert (done.returncode == 0) == (not wrong) and wrong in done.stderr, done.stderr


def hostile_table(name: str) -> Table:
    entries = (Entry(text=name, detail=name, value=1.5), Entry(text="—", hint=name, tone="failed"))
    return Table(title=name, columns=(name, name), rows=(entries, entries), note=name)


@given(name=st.one_of(st.just(HOSTILE), st.text()))
def test_any_name_gives_a_table_that_is_whole(name):
    table = hostile_table(name)
    content = "\n".join([text.table_file("x", table), *latex.remarks(table)])
    assert content.isascii()
    assert check._syntax(content) == [] and not check._COMMENT.search(content)
    assert content.count(r"\\" + "\n") == 3  # the head and two rows


def test_hostile_signs_are_written_as_themselves():
    assert latex.escape(r"_%$#&") == r"\_\%\$\#\&"
    assert latex.escape("{}") == r"\textbraceleft{}\textbraceright{}"
    assert latex.escape("~^\\") == r"\textasciitilde{}\textasciicircum{}\textbackslash{}"
    assert latex.escape("---") == "-{}-{}-"
    assert latex.escape("né") == r"n\'{e}" and latex.escape("中") == r"\codepoint{4E2D}"


def test_a_long_table_has_a_part_for_each_page():
    table = Table(title="Long", columns=("n",), rows=tuple((str(n),) for n in range(90)))
    content = text.table_file("long", table)
    assert content.count(r"\begin{table}") == 3 and r"\label{tab:long-3}" in content
    assert check.numbers(content) >= {str(n) for n in range(90)}
