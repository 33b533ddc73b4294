"""Make a run's report from its folder: page, Markdown, figures for print, results as JSON.

Everything is made anew from records; building twice gives the same, and nothing is measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from assay.plugins import installed
from assay.records.durable import make_folder, write_atomically
from assay.records.run import RunFolder, plugins_named_by
from assay.records.schema import Run
from assay.reports import html, interactive, printed, style
from assay.reports.chart import plates
from assay.reports.contents import read_contents
from assay.reports.drawing import draw_all, render_all
from assay.reports.markdown import markdown
from assay.reports.provenance import commit_text
from assay.reports.report import Report, compose
from assay.reports.result_files import write_results
from assay.reports.summary_text import summary_text
from assay.reports.withheld import proven

_INSTALL = "install it with `pip install 'assay[report]'`"
_UNWRITTEN = {
    "plotly": f"report.html was not written: the package plotly is not installed; {_INSTALL}",
    "matplotlib": f"no figure was printed: the package matplotlib is not installed; {_INSTALL}",
}


@dataclass(frozen=True, kw_only=True)
class Built:
    """What was written, and what was not with the reason; `report` is what the files say."""

    html: Path | None
    markdown: Path
    figures: tuple[Path, ...]
    results: tuple[Path, ...]
    summary: Path
    notes: tuple[str, ...]
    report: Report


def build(
    folder: RunFolder, *, planned: Sequence[str] = (), plugin_folders: Sequence[Path] = ()
) -> Built:
    """Write the report of the run in `folder`.

    Stages in `planned` that never began are shown as unfinished. Figures of the user's own come
    from `plugin_folders`, never from what the run itself names: a run may be anyone's.
    """
    contents = proven(read_contents(folder, planned=planned))
    unloaded = _unloaded(contents.run, plugin_folders)
    drawn = draw_all(contents.records, plugin_folders)
    colours = style.colours(series.subject for chart in drawn.charts for series in chart.series)
    commit = commit_text(contents.run.commit, contents.run.dirty)
    source = f"{contents.run.study}, run {contents.run.run}, commit {commit}"
    missing = [package for package in _UNWRITTEN if not installed(package)]
    pages, page_problems = render_all(
        [] if "plotly" in missing else drawn.charts,
        partial(interactive.figure_json, colours=colours),
    )
    prints, print_problems = render_all(
        [] if "matplotlib" in missing else plates(drawn.charts),
        partial(printed.png, colours=colours, source=source),
    )
    problems = (*unloaded, *drawn.problems, *dict.fromkeys(page_problems + print_problems))
    report = compose(contents, charts=drawn.charts, problems=problems)
    return Built(
        markdown=_write(folder.path / "report.md", markdown(report, figures=list(prints))),
        html=None if "plotly" in missing else _write_page(folder, report, pages),
        figures=() if "matplotlib" in missing else _write_figures(folder, prints),
        results=write_results(folder, contents),
        summary=_write(folder.path / "summary_report.txt", summary_text(report, contents)),
        notes=tuple(_UNWRITTEN[package] for package in missing),
        report=report,
    )


def _unloaded(run: Run, given: Sequence[Path]) -> list[str]:
    """A line for each plugin folder of the run that was not given."""
    there = {path.resolve() for path in given}
    return [
        f"this run names the plugins {path}, which were not loaded: figures of theirs are left "
        "out; --plugins or --trust-plugins draws them"
        for path in plugins_named_by(run)
        if path.suffix != ".py" and path.resolve() not in there
    ]


def _write(path: Path, text: str) -> Path:
    # A name from outside may hold half of a surrogate pair, which UTF-8 has no bytes for.
    write_atomically(path, text.encode(errors="backslashreplace"))
    return path


def _write_page(folder: RunFolder, report: Report, figures: dict[str, str]) -> Path:
    return _write(folder.path / "report.html", html.page(report, figures=figures))


def _write_figures(folder: RunFolder, prints: dict[str, bytes]) -> tuple[Path, ...]:
    """Write the figures and take away those of an earlier build that are drawn no more."""
    figures = make_folder(folder.path / "figures")
    written = {figures / f"{stem}.png": content for stem, content in prints.items()}
    for stale in set(figures.glob("*.png")) - set(written):
        stale.unlink()
    for path, content in written.items():
        write_atomically(path, content)
    return tuple(written)
