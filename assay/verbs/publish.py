"""Make a bundle, a paper or an archive of runs that pass their checks, or send a bundle away."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags

if TYPE_CHECKING:
    from assay.verify.publish.judged import JudgedRuns

EXAMPLE = "Example: assay publish results/quickstart/20261115T021048.123Z-1f3a --to bundle"


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(publish)
    return app


def publish(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN]... | BUNDLE",
            help="Folders of runs, or of a bundle to upload; the newest run by default.",
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="A new folder; bundles/RUN by default.")
    ] = None,
    treatment: Annotated[
        str | None,
        typer.Option(
            "--treatment",
            help="Symbols that are meant to differ between two runs, comma between.",
        ),
    ] = None,
    explain: Annotated[
        list[str] | None,
        typer.Option(
            "--explain", metavar="NAME=WHY", help="Why another difference has no influence."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the runs, and write nothing.")
    ] = False,
    out: flags.Out = flags.RESULTS,
) -> None:
    from assay.errors import BadInput
    from assay.records.run import newest_run
    from assay.verify.compared import explanations
    from assay.verify.publish import bundle
    from assay.verify.publish.judged import judge_folders

    runs = paths or [newest_run(out)]
    treated = treatment.split(",") if treatment else []
    explained = explanations(explain or [])
    judged = judge_folders(runs, treatment=treated, explained=explained)
    target = to or Path("bundles") / judged.runs[0].run.run
    if target.exists():
        raise BadInput(f"{target} is there already; name a new folder with --to")
    _refuse_failing(judged)
    names = ", ".join(run.name for run in judged.runs)
    if dry_run:
        print(f"PASS  {names} would be published as {target}; nothing was written")
        return
    sealed = bundle.write(runs, target, treatment=treated, explained=explained)
    print(f"PUBLISHED  {names}: {target}")
    for note in sealed.notes:
        print(f"note: {note}")
    print(f"digest: {sealed.digest}")
    print(f"to be verified anywhere with: assay verify {target} --digest {sealed.digest}")


def _refuse_failing(judged: "JudgedRuns") -> None:
    """End with 1 where a check of a run or of the pair fails, naming both."""
    checks: dict[str, dict[str, None]] = {}
    for name, finding in judged.failing:
        checks.setdefault(name, {})[finding.check] = None
    for name, failing in checks.items():
        print(f"NOT PUBLISHED  {name}: {', '.join(failing)}")
    for name, finding in judged.failing:
        where = f"{name}: " if len(judged.runs) > 1 else ""
        print(f"  {where}{finding.check}: {finding.reason}")
    if checks:
        raise typer.Exit(1)
