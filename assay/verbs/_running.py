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
    verbose: bool = False,
    prints: bool = True,
    judge: Judge | None = None,
    show: Show | None = None,
) -> int:
    """Carry out a run, write its report, with figures for print or without, and show it, with all
    its tables or few, or in the verb's own way; returns the exit code: the worse of the run's own
    and what `judge` says."""
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
        built = build(folder, planned=active.study.stages, plugin_folders=folders, prints=prints)
    if as_json:
        print_json(records)
        objections = (f"! {problem}" for problem in built.report.problems)
        print(built.report.answer, *objections, sep="\n", file=sys.stderr)
    elif show:
        show(built.report, records)
    else:
        show_report(built.report, verbose=verbose)
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
    verbose: bool = False,
    judge: Judge | None = None,
    show: Show | None = None,
    reuse: bool = False,
) -> int:
    """Run `study` into RESULTS/<verb>, or the folder of its own name where it has one; `out` goes
    before RESULTS.

    `judge` says more of the records, and gives an exit code of its own; `show` prints the
    run in its own way. With `reuse`, ceilings and verdicts of earlier runs stand in.
    """
    from assay import host
    from assay.studies import launching, plan, session

    if dry_run:
        show_plan(study, out or Path(study.results), as_json=as_json, reuse=reuse)
        return 0
    name = verb if study.study == "unnamed" else study.study
    here = host.inspect()
    launching.begin_imports(plan.on_device(study, here))
    active = session.started(study, here, out or Path(study.results), name, reuse=reuse)
    return run(active, as_json=as_json, verbose=verbose, prints=False, judge=judge, show=show)


def show_report(report: "Report", *, verbose: bool = False) -> None:
    """The report on the terminal: the answer, objections, what went wrong, results; tables of
    detail where they are asked for, or there is nothing else."""
    from assay.reports.terminal import console, show, show_answer

    screen = console()
    show_answer(report.answer, screen)
    for problem in report.problems:
        screen.print(f"! {problem}", markup=False, highlight=False)
    results = [table for table in report.results if table.rows]
    plain = any(any(table.numeric) for table in results if not table.detail)
    hidden = [t.title for t in results if t.detail] if plain and not verbose else []
    shown = [report.not_ok, *(t for t in results if t.title not in hidden)]
    for table in [*shown, *([report.stages] if verbose else ())]:
        if table.rows:
            show(table, screen, most_rows=MOST_ROWS)
    if hidden:
        more = f"{', '.join(hidden)}: in the report, or here with --verbose"
        screen.print(f"\n{more}", style="dim", markup=False, highlight=False)


def print_json(records: "Sequence[Record]") -> None:
    """Records as JSON lines."""
    import msgspec

    sys.stdout.write(msgspec.json.Encoder().encode_lines(list(records)).decode())


def show_plan(
    study: "Study",
    results: Path,
    *,
    as_json: bool = False,
    reuse: bool = False,
    extends: Path | None = None,
) -> None:
    """Show the cells that a study would run here, without running any, and how long they may take
    by the runs in `results`; of an extension also which it takes over from the run it `extends`."""
    from dataclasses import replace

    from assay import host
    from assay.records.run import open_run
    from assay.reports.numerals import counted
    from assay.reports.table import Table
    from assay.studies import duration, plan, session
    from assay.studies.earlier import EarlierRecords
    from assay.verbs._progress import duration_text

    here = host.inspect()
    stages, hosts = plan.make(study, here), plan.hosts_of(study, here)
    kept = session.kept_by_extension(open_run(extends)[0], stages) if extends else {}
    rows, to_run, taken = [], [], 0
    for stage in stages:
        before = [record for batch in kept.get(stage.name, ()) for record in batch]
        states = list(plan.states(stage, here, hosts, before=before, earlier=EarlierRecords()))
        due = tuple(state.planned for state in states if state.why_due)
        to_run.append(replace(stage, cells=due))
        taken += len(states) - len(due)
        for state in states:
            cell = state.planned.cell
            skipped = "; ".join(
                f"{subject}: {reason}"
                for subject, (status, reason) in state.blocked.items()
                if status == "skipped"
            )
            remark = skipped if state.why_due else "taken over"
            subjects = ", ".join(cell.subjects)
            rows.append((stage.name, cell.name, subjects, state.planned.fingerprint, remark))
    note = duration_text(duration.estimated(study, to_run, here, results, reused=reuse))
    table = Table(
        title=f"Plan of {study.study} on {plan.on_device(study, here).device}: {len(rows)} cells",
        columns=("stage", "cell", "subjects", "fingerprint", "remark" if extends else "skipped"),
        rows=tuple(rows),
        note=f"{counted(taken, 'cell')} taken over from {extends}. {note}" if extends else note,
        spare=("fingerprint",),
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
