"""`assay check --models`: which models, what is not to be said with it, and how it is shown."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.verbs import _flags as flags

if TYPE_CHECKING:
    from assay.records.schema import Record
    from assay.reports.report import Report
    from assay.studies.study import Study

ALL, FAST = "all", "fast"


def check_models(
    models: str | None,
    *,
    fast: bool,
    others: Mapping[str, Any],
    sets: Sequence[str] | None,
    out: Path,
    plugins: Sequence[Path] | None,
    as_json: bool,
    dry_run: bool,
) -> int:
    """Hold models against every gate; returns the exit code. `others` are flags by name that mean
    something for attention alone."""
    from assay.verbs._adhoc import run_adhoc

    chosen = _chosen(models, fast=fast)
    _refuse_others(chosen, others)
    study = flags.load_study(
        config=None, sets=sets, plugins=plugins, flags=["STAGES=models", f"MODELS={chosen}"]
    )
    _warn(study)
    if dry_run:
        _show_selection(study, as_json=as_json)
        return 0
    return run_adhoc("check", study, out=out, as_json=as_json, dry_run=False, show=show_models)


def show_models(report: "Report", records: "Sequence[Record]") -> None:
    """The verdict, one table, and a line for each gate that does not hold."""
    from assay.reports.models_table import failures, models_table
    from assay.reports.terminal import console, show

    screen = console()
    if table := models_table(records):
        show(table, screen)
    for line in failures(records):
        screen.print(line, markup=False, highlight=False, soft_wrap=True)
    for problem in report.problems:
        screen.print(f"! {problem}", markup=False, highlight=False)
    screen.print(f"{report.title}: {report.verdict}", style="bold", highlight=False)


def _chosen(models: str | None, *, fast: bool) -> str:
    from assay.errors import BadInput

    if not fast:
        return models or ""
    if models not in (None, ALL, FAST):
        raise BadInput(f"--fast chooses among all; --models {models} has already chosen")
    return FAST


def _refuse_others(models: str, others: Mapping[str, Any]) -> None:
    from assay.errors import BadInput

    if given := [name for name, value in others.items() if value]:
        raise BadInput(
            f"--models {models} examines models, tiny and on the CPU, and takes no "
            f"{', '.join(given)}: that is for implementations of attention; leave one of them out"
        )


def _warn(study: "Study") -> None:
    from assay.correctness.models.selection import select

    for warning in select(study.models, study.plugin_folders).warnings:
        print(f"assay: {warning}", file=sys.stderr)


def _show_selection(study: "Study", *, as_json: bool) -> None:
    """What would be examined, without examining it."""
    from assay.correctness.models.selection import select
    from assay.reports.table import Table
    from assay.verbs._running import tell

    found = select(study.models, study.plugin_folders).candidates
    table = Table(
        title=f"{len(found)} models would be examined",
        columns=("model", "steps", "parts"),
        rows=tuple((c.name, " ".join(c.steps), " ".join(c.tags)) for c in found),
    )
    tell(table, as_json=as_json)
