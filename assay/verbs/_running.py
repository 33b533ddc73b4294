"""A study run by a verb: tables after it, an exit code at the end."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from assay.errors import INTERRUPTED

if TYPE_CHECKING:
    from assay.records.schema import Record
    from assay.reports.report import Report
    from assay.reports.table import Table
    from assay.studies.execute import ActiveRun
    from assay.studies.study import Study


MOST_ROWS = 60  # of a table on a terminal; the report has them all


Judge = Callable[[Sequence["Record"]], int]
Show = Callable[["Report", Sequence["Record"]], None]


def run(
    context: "AbstractContextManager[ActiveRun]",
    *,
    as_json: bool = False,
    results: bool = False,
    judge: Judge | None = None,
    show: Show | None = None,
) -> int:
    """Carry out a run, write its report and show it, with all results or without, or in the
    verb's own way; returns the exit code: the worse of the run's own and what `judge` says."""
    from assay.reports.build import build
    from assay.reports.numerals import counted
    from assay.studies import execute
    from assay.studies.tracking import mirrored
    from assay.verbs._progress import Progress

    with (  # mirrors end after the run, which they follow for as long as it is held
        ExitStack() as mirrors,
        context as active,
        Progress(active.folder) as progress,
    ):
        folder = active.folder
        mirrors.enter_context(mirrored(folder.path, active.tracking, progress.note))
        cells = sum(len(stage.cells) for stage in active.stages)
        limit = f"at most {active.study.cell_timeout_s} s each"
        places = (d.words for d in active.host.devices if d.label == active.study.device)
        where = "".join(f", on {place}" for place in places)
        progress.note(f"run {folder.path}: {counted(cells, 'cell')}, {limit}{where}")
        try:
            records = execute.execute(active, progress)
        except KeyboardInterrupt:
            trust = " --trust-plugins" if active.study.plugin_folders else ""
            progress.note(f"interrupted; go on with: assay study resume {folder.path}{trust}")
            return INTERRUPTED
        folders = active.study.plugin_folders
        built = build(folder, planned=active.study.stages, plugin_folders=folders)
    if as_json:
        print_json(records)
    elif show:
        show(built.report, records)
    else:
        show_report(built.report, results=results)
    for note in built.notes:
        progress.note(note)
    print(f"report: {built.html or built.markdown}", file=sys.stderr if as_json else sys.stdout)
    code = execute.exit_code(records, active.stages)
    return code or (judge(records) if judge else code)


def run_adhoc(
    verb: str,
    study: "Study",
    *,
    out: Path | None,
    as_json: bool,
    dry_run: bool,
    judge: Judge | None = None,
    show: Show | None = None,
) -> int:
    """Run `study` into RESULTS/<verb>, or the folder of its own name where it has one; `out` goes
    before RESULTS.

    `judge` says more of the records, and gives an exit code of its own; `show` prints the
    run in its own way.
    """
    from assay import host
    from assay.studies import session

    if dry_run:
        show_plan(study, as_json=as_json)
        return 0
    name = verb if study.study == "unnamed" else study.study
    active = session.started(study, host.inspect(), out or Path(study.results), name)
    return run(active, as_json=as_json, results=True, judge=judge, show=show)


def show_report(report: "Report", *, results: bool) -> None:
    """The report on the terminal: verdict, how subjects compare, what went wrong, stages; results
    if asked, or where nothing was compared."""
    from assay.reports.terminal import console, show

    screen = console()
    screen.print(f"{report.title}: {report.verdict}", style="bold", highlight=False)
    for headline in report.headlines:
        screen.print(headline, style="bold", markup=False, highlight=False)
    for problem in report.problems:
        screen.print(f"! {problem}", markup=False, highlight=False)
    shown = report.results if results or not report.headlines else ()
    for table in (report.outcomes, report.stages, *shown):
        if table.rows:
            show(table, screen, most_rows=MOST_ROWS)


def print_json(records: "Sequence[Record]") -> None:
    """Records as JSON lines."""
    import msgspec

    sys.stdout.write(msgspec.json.Encoder().encode_lines(list(records)).decode())


def show_plan(study: "Study", *, as_json: bool = False) -> None:
    """Show the cells that a study would run here, without running any."""
    from assay import host
    from assay.reports.table import Table
    from assay.studies import plan
    from assay.studies.earlier import EarlierRecords

    here = host.inspect()
    rows = []
    for stage in plan.make(study, here):
        for planned in stage.cells:
            kept = {
                subject: reason
                for subject, (status, reason) in plan.obstacles(
                    stage, planned, here, EarlierRecords()
                ).items()
                if status == "skipped"
            }
            subjects = ", ".join(planned.cell.subjects)
            skipped = "; ".join(f"{subject}: {reason}" for subject, reason in kept.items())
            rows.append((stage.name, planned.cell.name, subjects, planned.fingerprint, skipped))
    table = Table(
        title=f"Plan of {study.study} on {plan.on_device(study, here).device}: {len(rows)} cells",
        columns=("stage", "cell", "subjects", "fingerprint", "skipped"),
        rows=tuple(rows),
    )
    tell(table, as_json=as_json)


def tell(table: "Table", *, as_json: bool) -> None:
    """A table for people, or its rows as JSON lines for programs."""
    if as_json:
        import json

        for row in table.entries:
            texts = (cell.text for cell in row)
            print(json.dumps(dict(zip(table.columns, texts, strict=True))))
        return
    from assay.reports.terminal import console, show

    show(table, console())


def finish(code: int) -> None:
    """End the verb with an exit code."""
    raise typer.Exit(code)
