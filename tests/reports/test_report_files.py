"""The files of a report: what they hold, and that nothing needs a network or a framework."""

import re
import struct
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from build_run import append, begin, checked, latency

from assay.plugins import listing, load
from assay.reports.build import build
from assay.reports.interactive import plotly_script

BROKEN = (
    '"""A figure that fails."""\n\ndef draw(records):\n    raise KeyError("no <b>such</b> thing")\n'
)
WRONG = '"""A figure that returns no chart."""\n\ndef draw(records):\n    return [1]\n'


def page_of(built):
    """The page without the library in it."""
    text = built.html.read_text()
    assert text.count(plotly_script()) == 1
    return text.replace(plotly_script(), "")


def resolution(png):
    """The pixels for each metre that a PNG states, across and down."""
    at = png.index(b"pHYs") + 4
    across, down, unit = struct.unpack(">IIB", png[at : at + 9])
    assert unit == 1
    return across, down


def test_failures_come_before_everything_measured(run):
    built = build(run)
    for text in (page_of(built), built.markdown.read_text()):
        parts = ("1 failed; unfinished: bench", "over budget", "Speed", "Paired ratios of bench")
        order = [text.index(part) for part in (*parts, "Provenance")]
        assert order == sorted(order)


def test_text_from_outside_is_never_markup(run):
    built = build(run)
    assert "<script>alert" not in built.html.read_text()
    assert "&lt;script&gt;alert(1)" in page_of(built)
    assert "<script>alert" not in built.markdown.read_text()


def test_a_name_cannot_leave_its_script_element(tmp_path):
    run = begin(tmp_path)
    append(run, "check", "k128", checked("</script><img src=x>"))
    append(run, "bench", "k128", latency("</script><img src=x>", [1.0, 2.0]))
    page = page_of(build(run))
    assert "<img" not in page
    assert page.count("<script") == page.count("</script")


def test_page_needs_no_network(run):
    page = page_of(build(run))
    assert not re.search(r"https?://", page)
    assert not re.search(r'<link|@import|\bsrc=|\bhref=(?!"#)|url\(', page)


def test_unknown_has_its_reason_where_it_stands(run):
    built = build(run)
    assert re.search(r'<td[^>]* title="16 GiB wanted, 7 GiB free"[^>]*>OOM<sup>', page_of(built))
    markdown = built.markdown.read_text()
    row = next(line for line in markdown.splitlines() if "s256" in line and "| eager | OOM" in line)
    number = re.search(r"OOM \((\d)\)", row).group(1)
    assert f"({number}) 16 GiB wanted, 7 GiB free" in markdown


def test_figures_are_printed_at_300_dpi(run):
    built = build(run)
    assert {path.name for path in built.figures} == {
        "accuracy_check_float32_causal.png",
        "latency_bench.png",
        "crossover_bench.png",
    }
    for path in built.figures:
        assert resolution(path.read_bytes()) == (11811, 11811)  # 300 / 0.0254
        assert f"figures/{path.name}" in built.markdown.read_text()
        assert f'id="figure-{path.stem}"' in page_of(built)


def test_a_report_without_figures_for_print_has_all_the_rest(run):
    built = build(run, prints=False)
    assert built.figures == () and not (run.path / "figures").exists() and not built.notes
    assert built.html.is_file() and "figures/" not in built.markdown.read_text()
    assert build(run).figures, "drawn when the report is asked for"


def test_a_figure_of_an_earlier_build_goes_away(run):
    (run.path / "figures").mkdir()
    (run.path / "figures" / "latency_gone.png").write_bytes(b"old")
    built = build(run)
    assert set((run.path / "figures").iterdir()) == set(built.figures)


def test_broken_figures_are_lines_in_the_report(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "broken.py").write_text(BROKEN)
    (own / "wrong.py").write_text(WRONG)
    run = begin(tmp_path / "run", plugins=[str(own), str(tmp_path / "other")])
    append(run, "check", "k128", checked("sdpa"))
    append(run, "bench", "k128", latency("sdpa", [1.0, 2.0]))
    built = build(run, plugin_folders=[own])
    problems = "\n".join(built.report.problems)
    assert "figure broken failed: KeyError" in problems
    assert "figure wrong failed: draw returned int" in problems
    assert "names the plugins" in problems and "other, which were not loaded" in problems
    assert "figure broken failed" in built.markdown.read_text()
    assert "no &lt;b&gt;such&lt;/b&gt; thing" in page_of(built)
    assert "latency_bench" in [path.stem for path in built.figures]


def test_building_twice_writes_the_same(run):
    first = [path.read_bytes() for path in _files(build(run))]
    assert first == [path.read_bytes() for path in _files(build(run))]


def test_a_run_without_any_record_has_a_report(tmp_path):
    built = build(begin(tmp_path))
    assert built.report.verdict == "unfinished: no stage has begun"
    assert "unfinished" in built.html.read_text()


@pytest.mark.parametrize(
    ("absent", "checks"),
    [
        (["torch"], "built.html.is_file() and len(built.figures) == 3 and not built.notes"),
        (["torch", "plotly", "jinja2", "matplotlib"], "built.html is None and built.figures == ()"),
    ],
)
def test_report_needs_no_framework_and_says_what_it_could_not_write(run, absent, checks):
    code = (
        "import sys\n"
        f"for name in {absent}: sys.modules[name] = None\n"
        "from pathlib import Path\n"
        "from assay.records.run import RunFolder\n"
        "from assay.reports.build import build\n"
        f"built = build(RunFolder(path=Path({str(run.path)!r})))\n"
        f"assert {checks}, built\n"
        "print(*built.notes, sep='\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    partial = "plotly" in absent
    for note in (
        "report.html was not written: plotly and jinja2 are not installed",
        "figures were not written: matplotlib is not installed",
    ):
        assert (note in done.stdout) == partial
    assert (run.path / "report.md").is_file()
    assert (run.path / "report.html").exists() != partial


def test_every_figure_says_what_it_draws_and_takes_nothing():
    """A report of a run that measured something else has no charts, and no failure of one."""
    for plugin in listing("figures").values():
        assert plugin.summary, plugin.path
        assert load(plugin).draw([]) == []


def test_what_is_no_code_is_in_the_wheel():
    """Templates, stylesheet and script lie beside code, of which setuptools takes .py alone."""
    root = Path(__file__).parents[2]
    setuptools = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    packed = {
        path
        for package, patterns in setuptools["package-data"].items()
        for pattern in patterns
        for path in (root / package.replace(".", "/")).glob(pattern)
    }
    files = (path for path in (root / "assay").rglob("*") if path.is_file())
    assert {path for path in files if path.suffix not in (".py", ".pyc")} == packed


def _files(built):
    return [built.html, built.markdown, *built.figures]
