"""Check claims against their records, and whether runs may be compared."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags

if TYPE_CHECKING:
    from assay.verify.compared import RunComparison
    from assay.verify.finding import CheckFinding

_COUNTED = ("holds", "fails", "not tested")
EXAMPLE = (
    "Example: assay verify results/a/20261118T042001.687Z-bfa6 results/b/20261118T051002.1Z-c0de"
)


def command() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command(help=f"{__doc__} {EXAMPLE}")(verify)
    return app


def verify(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[CLAIM.toml]... | RUN | RUN RUN | BUNDLE",
            help="Files of claims, the folder of one run, of two, or of a bundle; by default all "
            "claims and all pages of this checkout. A run may be a tracker's: a folder or .wandb "
            "file of W&B, an export, a .db file of trackio, with ::NAME where it holds several.",
        ),
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
            "--explain",
            metavar="NAME=WHY",
            help="Why another difference has no influence, such as versions.jax='no JAX here'.",
        ),
    ] = None,
    digest: Annotated[
        str | None, typer.Option("--digest", help="What `assay publish` printed for a bundle.")
    ] = None,
    remote: Annotated[
        str | None,
        typer.Option("--remote", help="A git repository in which the runs' commits must be."),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Also run the commands that measure the claims again, where they name one; "
            "minutes.",
        ),
    ] = False,
    as_json: flags.Json = False,
) -> None:
    from assay.errors import BadInput

    given = paths or sorted(Path("claims").glob("*.toml"))
    if not given:
        raise BadInput("there is no folder claims here; name a claim's file, or one run or two")
    claims = [path for path in given if path.suffix == ".toml"]
    if claims and len(claims) < len(given):
        raise BadInput("claims and runs are verified apart; give the one or the other")
    if claims and (treatment or explain or digest or remote):
        raise BadInput("--treatment, --explain, --digest and --remote are of runs, not of claims")
    if claims:
        holding = bool(paths) or _pages(as_json)
        holding &= _claims(claims, as_json)
        if again:
            holding &= _measured_again(claims, as_json)
    elif again:
        raise BadInput("--again is of claims; a run is measured again with `assay study run`")
    elif len(given) > 2:
        raise BadInput(f"{len(given)} runs were given, wanted one, or two to compare")
    else:
        holding = _runs(given, treatment, explain or [], digest, remote, as_json)
    if not holding:
        raise typer.Exit(1)


def _runs(
    paths: Sequence[Path],
    treatment: str | None,
    explain: Sequence[str],
    digest: str | None,
    remote: str | None,
    as_json: bool,
) -> bool:
    from assay.errors import BadInput
    from assay.verify import bundle
    from assay.verify.compared import RunComparison
    from assay.verify.judgement import are_comparable, judge
    from assay.verify.tracker_runs import load_all

    pairs = [entry.partition("=") for entry in explain]
    if wrong := [entry for entry, (_, _, why) in zip(explain, pairs, strict=True) if not why]:
        raise BadInput(f"--explain {wrong[0]!r} gives no reason; wanted NAME=WHY")
    if digest and (len(paths) > 1 or not bundle.is_bundle(paths[0])):
        raise BadInput("--digest belongs to a bundle, a folder that `assay publish` made")
    sealed = [f for path in paths if bundle.is_bundle(path) for f in _of_bundle(path, digest)]
    if not are_comparable(sealed):  # then nothing in it is believed
        _tell(paths[0].name, (), "FAIL", sealed, as_json)
        return False
    comparison = RunComparison(
        runs=load_all(paths),
        treatment=tuple(treatment.split(",")) if treatment else (),
        explained={name: why for name, _, why in pairs},
        remote=remote,
    )
    _refuse_misnamed(comparison)
    findings = [*sealed, *judge(comparison)]
    words = ("FAIR", "UNFAIR") if len(paths) > 1 else ("PASS", "FAIL")
    names = " and ".join(run.name for run in comparison.runs)
    _tell(names, comparison.treated, words[not are_comparable(findings)], findings, as_json)
    return are_comparable(findings)


def _refuse_misnamed(comparison: "RunComparison") -> None:
    from assay.errors import BadInput
    from assay.verify.checks.differences import differing
    from assay.verify.compared import YARDSTICKS

    for name in comparison.treatment:
        if name in YARDSTICKS:
            raise BadInput(
                f"--treatment {name}: what is measured with cannot be what is compared; run both "
                "on the same"
            )
        if len(comparison.values(name)) < 2:
            raise BadInput(f"--treatment {name}: the runs do not differ in a symbol of that name")
    for name in sorted(comparison.explained.keys() - differing(comparison)):
        raise BadInput(f"--explain {name}: the runs do not differ in anything of that name")


def _of_bundle(path: Path, digest: str | None) -> "list[CheckFinding]":
    """Check that a bundle is as it was sealed, and its report what its records give."""
    from assay.verify import bundle
    from assay.verify.finding import fails, holds, not_tested
    from assay.verify.judgement import are_comparable

    findings = bundle.look(path, digest)
    if are_comparable(findings):
        made = _made_from_records(path)
        other = [name for name, text in made.items() if (path / name).read_bytes() != text]
        mismatch = f"not what its records give: {', '.join(other)}"
        if not other:
            findings.append(holds(f"{', '.join(made)} are what its records give"))
        elif bundle.is_made_here(path):
            findings.append(fails(mismatch))
        else:
            findings.append(not_tested(f"{mismatch}; another version of assay made them"))
    return [replace(finding, check="bundle") for finding in findings]


def _made_from_records(path: Path) -> dict[str, bytes]:
    """Those files of a report that are the same wherever they are made; the page and the figures
    depend on the versions of what draws them."""
    from tempfile import TemporaryDirectory

    from assay.records.run import RunFolder
    from assay.reports.build import build

    with TemporaryDirectory() as folder:
        for name in ("run.json", "metrics.jsonl.gz"):
            shutil.copy(path / name, folder)
        built = build(RunFolder(path=Path(folder)))
        made = [built.markdown, built.summary, *built.results]
        return {file.name: file.read_bytes() for file in made if (path / file.name).is_file()}


def _tell(
    names: str,
    treatment: Sequence[str],
    word: str,
    findings: "Sequence[CheckFinding]",
    as_json: bool,
) -> None:
    from assay.reports.table import Table
    from assay.reports.terminal import console, show

    if as_json:
        for finding in findings:
            print(json.dumps(asdict(finding)))
        return
    wrong = dict.fromkeys(f.check for f in findings if f.verdict == "fails")
    print(f"{word}  {names}{': ' if wrong else ''}{', '.join(wrong)}")
    counts = [sum(f.verdict == verdict for f in findings) for verdict in _COUNTED]
    print(
        "{} findings hold, {} fail, {} could not be tested".format(*counts)
        + (f"; treatment: {', '.join(treatment)}" if treatment else "")
    )
    rows = tuple((f.verdict, f.check, f.reason) for f in findings)
    show(Table(title="Findings", columns=("verdict", "check", "finding"), rows=rows), console())


def _pages(as_json: bool) -> bool:
    """Hold README and docs of the checkout around against claims and evidence."""
    from assay.verify import pages
    from assay.verify.judgement import are_comparable

    findings = [replace(finding, check="pages") for finding in pages.look(Path.cwd())]
    if as_json:
        for finding in findings:
            print(json.dumps(asdict(finding)))
    else:
        word = "PASS" if are_comparable(findings) else "FAIL"
        for finding in findings:
            print(f"{word}  {finding.reason}")
        _tell_published()
    return are_comparable(findings)


def _tell_published() -> None:
    """Count the figures of others by their verdicts, none of which is a failure of ours."""
    from assay.verify import published

    words = [repeated.word for _, repeated in published.judge_all().values()]
    counts = ", ".join(f"{words.count(word)} {word}" for word in sorted(set(words)))
    print(f"{len(words)} published figures of others: {counts} (docs/results/published.md)")


def _measured_again(paths: Sequence[Path], as_json: bool) -> bool:
    from assay.verbs._again import measure_again
    from assay.verify import claim

    return measure_again({path.stem: claim.load(path) for path in paths}, as_json=as_json)


def _claims(paths: Sequence[Path], as_json: bool) -> bool:
    from assay.reports.table import Table
    from assay.reports.terminal import console, show
    from assay.verify import claim, claim_verdict

    verdicts = {path.stem: claim_verdict.judge(claim.load(path)) for path in paths}
    counts: dict[str, int] = {}
    for verdict in verdicts.values():
        counts[verdict.word] = counts.get(verdict.word, 0) + 1
    holding = not {"unsupported", "refuted", "not tested"} & counts.keys()
    if as_json:
        for name, verdict in verdicts.items():
            print(json.dumps({"claim": name, **asdict(verdict)}))
        return holding
    summary = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    noun = "claim" if len(verdicts) == 1 else "claims"
    print(f"{'PASS' if holding else 'FAIL'}  {len(verdicts)} {noun}: {summary}")
    rows = tuple(
        (v.word, name, "{:.4g} to {:.4g}".format(*v.interval) if v.interval else "—", v.reason)
        for name, v in sorted(verdicts.items(), key=lambda item: (item[1].word, item[0]))
    )
    columns = ("verdict", "claim", "95 % of the median", "why")
    show(Table(title="Claims", columns=columns, rows=rows, spare=(columns[2],)), console())
    return holding
