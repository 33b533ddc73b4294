"""Make a bundle, a paper or an archive of runs that pass their checks, or send a bundle away."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags

if TYPE_CHECKING:
    from assay.verify.publish.judged import JudgedRuns
    from assay.verify.publish.upload import SentBundle

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
    paper: Annotated[
        Path | None,
        typer.Option("--paper", help="Write a LaTeX folder of one run here instead of a bundle."),
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option("--archive", help="Commit one run's results to this git repository instead."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The name in the archive; the study's by default.")
    ] = None,
    upload: Annotated[
        str | None,
        typer.Option(
            "--upload",
            metavar="DEST",
            help="Send a bundle to folder:PATH, git:URL#BRANCH, wandb:[ENTITY/]PROJECT or "
            "trackio:PROJECT instead.",
        ),
    ] = None,
    treatment: flags.Treatment = None,
    explain: flags.Explain = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the runs, and write nothing.")
    ] = False,
    out: flags.Out = flags.RESULTS,
) -> None:
    from assay.errors import BadInput
    from assay.records.run import newest_run
    from assay.verify.judgement import explanations
    from assay.verify.publish.judged import judge_folders
    from assay.verify.publish.manifest import is_bundle

    runs = paths or [newest_run(out)]
    if sum(way is not None for way in (to, paper, archive, upload)) > 1:
        raise BadInput("--to, --paper, --archive and --upload are of one call each; give one")
    if (paper or archive) and len(runs) > 1:
        raise BadInput(f"a paper and an archive are of one run; {len(runs)} were given")
    if name and not archive:
        raise BadInput("--name is the name in an archive; give --archive REPO with it")
    if any(is_bundle(path) for path in runs):
        if len(runs) > 1 or upload is None:
            raise BadInput("a bundle is published already; give it alone, with --upload DEST")
        _upload_bundle(runs[0], upload, dry_run)
        return
    treated = treatment.split(",") if treatment else []
    judged = judge_folders(runs, treatment=treated, explained=explanations(explain or []))
    target = paper or to or Path("bundles") / judged.runs[0].run.run
    if target.exists() and not (archive or upload):
        raise BadInput(f"{target} is there already; name a new folder")
    _refuse_failing(judged)
    if paper:
        _write_paper(runs[0], judged, target, dry_run)
    elif archive:
        _write_archive(runs[0], judged, archive, name, dry_run)
    elif upload:
        _upload_runs(runs, judged, upload, dry_run)
    else:
        _write_bundle(runs, judged, target, dry_run)


def _write_bundle(runs: Sequence[Path], judged: "JudgedRuns", target: Path, dry_run: bool) -> None:
    from assay.verify.publish import bundle

    if dry_run:
        print(f"PASS  {judged.names} would be published as {target}; nothing was written")
        return
    sealed = bundle.write(runs, target, pair=judged.pair)
    print(f"PUBLISHED  {judged.names}: {target}")
    for note in sealed.notes:
        print(f"note: {note}")
    print(f"digest: {sealed.digest}")
    print(f"to be verified anywhere with: assay verify {target} --digest {sealed.digest}")


def _write_paper(run: Path, judged: "JudgedRuns", target: Path, dry_run: bool) -> None:
    from assay.verify.publish import bundle
    from assay.verify.publish.paper import folder

    if dry_run:
        print(f"PASS  the paper of {judged.names} would be {target}; nothing was written")
        return
    with bundle.temporary([run]) as sealed:
        files = folder.write(sealed, target)
        notes = sealed.notes
    print(f"PAPER  {judged.names}: {target}, {len(files)} files")
    for note in notes:
        print(f"note: {note}")
    print(f"make -C {target} check needs no TeX; make -C {target} writes main.pdf")


def _write_archive(
    run: Path, judged: "JudgedRuns", repository: Path, name: str | None, dry_run: bool
) -> None:
    from assay.verify.publish import archive, bundle

    name = name or judged.runs[0].run.study
    archive.check(repository, name)
    if dry_run:
        print(f"PASS  {judged.names} would be {name} in {repository}; nothing was written")
        return
    with bundle.temporary([run]) as sealed:
        archived = archive.write(sealed, run, repository, name)
    if archived.tag is None:
        print(f"THE SAME  {name} is in {repository} with this content; nothing was written")
        return
    print(f"ARCHIVED  {judged.names}: {repository / name}, {len(archived.left_out)} files left out")
    print(f"commit {archived.commit}, tag {archived.tag}")


def _upload_runs(runs: Sequence[Path], judged: "JudgedRuns", address: str, dry_run: bool) -> None:
    from assay.verify.publish import bundle, upload

    upload.parse(address)  # before a bundle is made for nothing
    with bundle.temporary(runs, pair=judged.pair) as sealed:
        name = upload.name_of(judged.runs[0].run.run)
        _print_upload(upload.send(sealed.folder, address, name=name, dry_run=dry_run))


def _upload_bundle(bundle: Path, address: str, dry_run: bool) -> None:
    from assay.verify.judgement import are_comparable
    from assay.verify.publish import inspection, upload

    upload.parse(address)
    findings = inspection.inspect(bundle)
    if not are_comparable(findings):
        print(f"NOT SENT  {bundle.resolve().name}")
        for finding in findings:
            if finding.verdict == "fails":
                print(f"  {finding.check}: {finding.reason}")
        raise typer.Exit(1)
    name = upload.name_of(bundle.resolve().name)
    _print_upload(upload.send(bundle, address, name=name, dry_run=dry_run))


def _print_upload(sent: "SentBundle") -> None:
    word = "WOULD SEND" if sent.dry_run else "SENT"
    print(f"{word}  {len(sent.files)} files, {sum(sent.files.values()):,} bytes to {sent.place}")
    if sent.dry_run:
        for name, size in sent.files.items():
            print(f"  {size:>12,}  {name}")
    print(f"digest: {sent.digest}")
    if not sent.dry_run:
        print(sent.read_back)


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
