"""Check claims against their records, and whether runs may be compared."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags

if TYPE_CHECKING:
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
            "claims of the folder claims. A run may be a tracker's: a folder or .wandb "
            "file of W&B, an export, a .db file of trackio, with ::NAME where it holds several.",
        ),
    ] = None,
    treatment: flags.Treatment = None,
    explain: flags.Explain = None,
    digest: Annotated[
        str | None, typer.Option("--digest", help="What `assay publish` printed for a bundle.")
    ] = None,
    remote: Annotated[
        str | None,
        typer.Option("--remote", help="A git repository in which the runs' commits must be."),
    ] = None,
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
        holding = judge_claims(claims, as_json=as_json)
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
    from assay.verify.judgement import are_comparable, compare, explanations, judge
    from assay.verify.publish import inspection
    from assay.verify.trackers.runs import load_all

    explained = explanations(explain)
    if len(paths) == 1 and (digest is not None or inspection.is_bundle(paths[0])):
        if treatment or explain:
            raise BadInput("a bundle says itself how its runs differ; leave --treatment out")
        findings = inspection.inspect(paths[0], digest)
        word = "PASS" if are_comparable(findings) else "FAIL"
        _tell(paths[0].resolve().name, (), word, findings, as_json)
        return are_comparable(findings)
    if digest is not None:
        raise BadInput("--digest belongs to one bundle, a folder that `assay publish` made")
    sealed = [f for p in paths if inspection.is_bundle(p) for f in inspection.of_one_run(p)]
    if not are_comparable(sealed):  # then nothing in it is believed
        _tell(paths[0].name, (), "FAIL", sealed, as_json)
        return False
    treated = treatment.split(",") if treatment else ()
    comparison = compare(load_all(paths), treatment=treated, explained=explained, remote=remote)
    findings = [*sealed, *judge(comparison)]
    words = ("FAIR", "UNFAIR") if len(paths) > 1 else ("PASS", "FAIL")
    names = " and ".join(run.name for run in comparison.runs)
    _tell(names, comparison.treated, words[not are_comparable(findings)], findings, as_json)
    return are_comparable(findings)


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
    if word == "FAIR" and any(f.verdict == "not tested" for f in findings):
        word = "FAIR WHERE TESTED"
    print(f"{word}  {names}{': ' if wrong else ''}{', '.join(wrong)}")
    counts = [sum(f.verdict == verdict for f in findings) for verdict in _COUNTED]
    print(
        "findings: {} hold, {} fail, {} could not be tested".format(*counts)
        + (f"; treatment: {', '.join(treatment)}" if treatment else "")
    )
    rows = tuple((f.verdict, f.check, f.reason) for f in findings)
    show(Table(title="Findings", columns=("verdict", "check", "finding"), rows=rows), console())


def judge_claims(paths: Sequence[Path], *, as_json: bool) -> bool:
    """Hold claims against their evidence, show the verdicts, and return whether all hold."""
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
