"""Make a bundle of a run that passes its checks: records, report, manifest and a digest of all."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags

if TYPE_CHECKING:
    from assay.verify.finding import CheckFinding

EXAMPLE = "Example: assay publish results/quickstart/20261115T021048.123Z-1f3a --to bundle"


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(publish)
    return app


def publish(
    path: Annotated[
        Path | None, typer.Argument(help="The run's folder; the newest below --out by default.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="A new folder; bundles/RUN by default.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the run, and write nothing.")
    ] = False,
    out: flags.Out = flags.RESULTS,
) -> None:
    from assay.errors import BadInput
    from assay.records.run import newest_run
    from assay.verify.compared import RunComparison, load
    from assay.verify.judgement import judge

    run = load(path or newest_run(out))
    target = to or Path("bundles") / run.run.run
    if target.exists():
        raise BadInput(f"{target} is there already; name a new folder with --to")
    findings = judge(RunComparison(runs=(run,)))
    if wrong := [finding for finding in findings if finding.verdict == "fails"]:
        print(f"NOT PUBLISHED  {run.name}: {', '.join(dict.fromkeys(f.check for f in wrong))}")
        for finding in wrong:
            print(f"  {finding.check}: {finding.reason}")
        raise typer.Exit(1)
    if dry_run:
        print(f"PASS  {run.name} would be published as {target}; nothing was written")
        return
    digest = _write(path or newest_run(out), target, findings)
    print(f"PUBLISHED  {run.name}: {target}")
    print(f"digest: {digest}")
    print(f"to be verified anywhere with: assay verify {target} --digest {digest}")


def _write(run: Path, target: Path, findings: "list[CheckFinding]") -> str:
    """Write a whole bundle, or none."""
    from assay.reports.build import build
    from assay.verify import bundle

    unfinished = target.with_name(f"{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        build(bundle.prepare(run, unfinished))
        digest = bundle.seal(unfinished, findings)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return digest
