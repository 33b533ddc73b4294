"""The report of a run, written into its folder: page, Markdown, figures for print, results as JSON.

All of it is generated from records; building twice gives the same, and nothing is measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from assay.installation import how_to_add
from assay.plugins import installed
from assay.records.durable import make_folder, write_atomically
from assay.records.named_code import plugins_named_by
from assay.records.run import RunFolder
from assay.records.schema import Run
from assay.reports import html, interactive, printed, style
from assay.reports.chart import grouped
from assay.reports.contents import read_contents
from assay.reports.extensions import draw_charts, render_all
from assay.reports.markdown import markdown
from assay.reports.report import Report, compose
from assay.reports.result_files import write_results
from assay.reports.run_tables import commit_text
from assay.reports.summary_text import summary_text
from assay.reports.unchecked import withhold_unchecked

_FOR_PAGE, _FOR_PRINT = ("plotly", "jinja2"), ("matplotlib",)


@dataclass(frozen=True, kw_only=True)
class Built:
    """The files of a report, notes on those that could not be written, and the report itself."""

    html: Path | None
    markdown: Path
    figures: tuple[Path, ...]
    results: tuple[Path, ...]
    summary: Path
    notes: tuple[str, ...]
    report: Report
    unreadable: tuple[str, ...]  # stages whose log was changed from outside, with the reason


def build(
    folder: RunFolder,
    *,
    planned: Sequence[str] = (),
    plugin_folders: Sequence[Path] = (),
    prints: bool = True,
) -> Built:
    """Write the report of the run in `folder`, with figures for print or without: they take longer
    than all the rest.

    Stages in `planned` that never began are shown as unfinished. Figures and tables of the user's
    own come from `plugin_folders`, never from what the run itself names: a run may be anyone's.
    """
    contents = withhold_unchecked(read_contents(folder, planned=planned))
    run = contents.run
    charts, problems = draw_charts(contents.records, plugin_folders)
    colours = style.colours(series.subject for chart in charts for series in chart.series)
    source = f"{run.study}, run {run.run}, commit {commit_text(run.commit, run.dirty)}"
    without_page, without_print = (
        [package for package in packages if not installed(package)]
        for packages in (_FOR_PAGE, _FOR_PRINT)
    )
    pages, page_problems = render_all(
        [] if without_page else charts, partial(interactive.figure_json, colours=colours)
    )
    printed_charts, print_problems = render_all(
        grouped(charts) if prints and not without_print else [],
        partial(printed.png, colours=colours, source=source),
    )
    report = compose(
        contents,
        charts=charts,
        problems=(
            *_unloaded(run, plugin_folders),
            *problems,
            *dict.fromkeys(page_problems + print_problems),
        ),
        plugin_folders=plugin_folders,
    )
    notes = [f"report.html was not written: {_missing(without_page)}"] if without_page else []
    if prints and without_print:
        notes.append(f"figures were not written: {_missing(without_print)}")
    page = None if without_page else html.page(report, figures=pages)
    return Built(
        markdown=_write(folder.path / "report.md", markdown(report, figures=list(printed_charts))),
        html=None if page is None else _write(folder.path / "report.html", page),
        figures=_write_figures(folder, printed_charts) if prints and not without_print else (),
        results=write_results(folder, contents),
        summary=_write(folder.path / "summary_report.txt", summary_text(report, run)),
        notes=tuple(notes),
        report=report,
        unreadable=tuple(p for s in contents.stages if not s.readable for p in s.problems),
    )


def _unloaded(run: Run, given: Sequence[Path]) -> list[str]:
    """A line for each plugin folder of the run that was not given."""
    loaded = {path.resolve() for path in given}
    return [
        f"this run names the plugins {path}, which were not loaded: their figures and tables are "
        "left out; --plugins or --trust-plugins loads them"
        for path in plugins_named_by(run)
        if path.suffix != ".py" and path.resolve() not in loaded
    ]


def _missing(packages: Sequence[str]) -> str:
    verb = "is" if len(packages) == 1 else "are"
    return f"{' and '.join(packages)} {verb} not installed; install with `{how_to_add('report')}`"


def _write(path: Path, text: str) -> Path:
    # A name from outside may hold half of a surrogate pair, which UTF-8 has no bytes for.
    write_atomically(path, text.encode(errors="backslashreplace"))
    return path


def _write_figures(folder: RunFolder, prints: dict[str, bytes]) -> tuple[Path, ...]:
    """Write the figures, and remove those of an earlier build that are no longer drawn."""
    figures = folder.path / "figures"
    written = {figures / f"{stem}.png": content for stem, content in prints.items()}
    for stale in set(figures.glob("*.png")) - set(written):
        stale.unlink()
    if not written:
        return ()
    make_folder(figures)
    for path, content in written.items():
        write_atomically(path, content)
    return tuple(written)
