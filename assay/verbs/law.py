"""Fit laws to records: growth with the length, crossings, where memory ends, what to use."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags

if TYPE_CHECKING:
    from assay.laws.fitted import Laws
    from assay.records.schema import Record, Run

EXAMPLE = "Example: assay law results/bench/20261115T021048.123Z-1f3a --vs sdpa"


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(law)
    return app


def law(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN]...", help="Folders of runs; the newest below --out that has a bench."
        ),
    ] = None,
    versus: Annotated[
        str | None,
        typer.Option("--vs", help="Compare with this subject; with the first one by default."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="Only laws of these metrics, comma between.")
    ] = None,
    thresholds: Annotated[
        Path | None,
        typer.Option(
            "--thresholds",
            help="Write what to use from which length on into this file, beside other hosts'.",
        ),
    ] = None,
    out: flags.Out = flags.RESULTS,
    as_json: flags.Json = False,
) -> None:
    from assay.laws.fitted import fit_all
    from assay.laws.thresholds_file import write

    paths = paths or [_newest_with_bench(out)]
    runs, records = _load(paths)
    print(f"laws of {', '.join(map(str, paths))}", file=sys.stderr)
    _refuse_unknown("--vs", [versus] if versus else [], {r.subject for r in _measured(records)})
    metrics = metric.split(",") if metric else None
    _refuse_unknown("--metric", metrics or [], {r.metric for r in _measured(records)})
    laws = fit_all(records, runs, metrics=metrics, against=versus)
    if as_json:
        for line in laws.as_lines():
            print(line)
    else:
        _show(laws)
    if thresholds:
        write(thresholds, laws.required_recommendations(), runs)
        if not as_json:
            print(f"thresholds: {thresholds}")


def _load(paths: Sequence[Path]) -> "tuple[list[Run], list[Record]]":
    from assay.records.run import load_records, open_run

    runs, records = [], []
    for path in dict.fromkeys(path.resolve() for path in paths):
        runs.append(open_run(path)[1])
        records += load_records(path)
    return runs, records


def _newest_with_bench(results: Path) -> Path:
    from assay.errors import BadInput
    from assay.laws.curves import MEASURING
    from assay.records.run import runs_below

    runs = [
        folder.path
        for folder in runs_below(results)
        if any(folder.log(stage).is_file() for stage in MEASURING)
    ]
    if not runs:
        raise BadInput(
            f"no run below {results} has a bench stage; run `assay bench`, or name a run's folder"
        )
    return max(runs, key=lambda path: path.name)


def _measured(records: "Sequence[Record]") -> "list[Record]":
    from assay.laws.curves import MEASURING

    return [r for r in records if r.workload and r.value is not None and r.stage in MEASURING]


def _refuse_unknown(flag: str, names: Sequence[str], known: set[str]) -> None:
    from assay.errors import BadInput

    for name in names:
        if name not in known:
            held = ", ".join(sorted(known)) or "nothing that was measured"
            raise BadInput(f"{flag} {name} is not in these records, which hold {held}")


def _show(laws: "Laws") -> None:
    from assay.reports.law_tables import law_answer, tables_of
    from assay.reports.terminal import console, show, show_answer

    screen = console()
    show_answer(law_answer(laws), screen)
    for table in tables_of(laws):
        show(table, screen)
