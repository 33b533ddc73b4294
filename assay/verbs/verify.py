"""Whether claims hold on their records, and whether runs may be compared."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.verbs import _flags as flags

if TYPE_CHECKING:
    from assay.verify.compared import RunComparison
    from assay.verify.finding import CheckFinding

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
            metavar="[CLAIM.toml]... | RUN | RUN RUN",
            help="Files of claims, the folder of one run, or those of two; all claims by default.",
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
    as_json: flags.Json = False,
) -> None:
    from assay.errors import BadInput

    given = paths or sorted(Path("claims").glob("*.toml"))
    if not given:
        raise BadInput("there is no folder claims here; name a claim's file, or one run or two")
    claims = [path for path in given if path.suffix == ".toml"]
    if claims and len(claims) < len(given):
        raise BadInput("claims and runs are verified apart; give the one or the other")
    if claims:
        holding = _claims(claims, as_json)
    elif len(given) > 2:
        raise BadInput(f"{len(given)} runs were given, wanted one, or two to compare")
    else:
        holding = _runs(given, treatment, explain or [], as_json)
    if not holding:
        raise typer.Exit(1)


def _runs(
    paths: Sequence[Path], treatment: str | None, explain: Sequence[str], as_json: bool
) -> bool:
    from assay.errors import BadInput
    from assay.verify.compared import RunComparison, load_all
    from assay.verify.judgement import are_comparable, judge

    pairs = [entry.partition("=") for entry in explain]
    if wrong := [entry for entry, (_, _, why) in zip(explain, pairs, strict=True) if not why]:
        raise BadInput(f"--explain {wrong[0]!r} gives no reason; wanted NAME=WHY")
    comparison = RunComparison(
        runs=load_all(paths),
        treatment=tuple(treatment.split(",")) if treatment else (),
        explained={name: why for name, _, why in pairs},
    )
    if unknown := [n for n in comparison.treatment if comparison.values(n) == {None}]:
        raise BadInput(f"--treatment {unknown[0]}: none of the runs has such a symbol")
    findings = judge(comparison)
    if as_json:
        for finding in findings:
            print(json.dumps(asdict(finding)))
    else:
        _show_findings(comparison, findings)
    return are_comparable(findings)


def _show_findings(comparison: "RunComparison", findings: "Sequence[CheckFinding]") -> None:
    from assay.reports.table import Table
    from assay.reports.terminal import console, show

    counts = {word: sum(f.verdict == word for f in findings) for word in ("fails", "not tested")}
    names = " and ".join(run.name for run in comparison.runs)
    wrong = dict.fromkeys(f.check for f in findings if f.verdict == "fails")
    word = "UNFAIR" if wrong else "FAIR"
    if len(comparison.runs) < 2:
        word = "FAIL" if wrong else "PASS"
    print(f"{word}  {names}{': ' if wrong else ''}{', '.join(wrong)}")
    held = len(findings) - sum(counts.values())
    print(
        f"{held} findings hold, {counts['fails']} fail, {counts['not tested']} could not be tested"
        + (f"; treatment: {', '.join(comparison.treated)}" if comparison.treated else "")
    )
    rows = tuple((f.verdict, f.check, f.reason) for f in findings)
    show(Table(title="Findings", columns=("verdict", "check", "finding"), rows=rows), console())


def _claims(paths: Sequence[Path], as_json: bool) -> bool:
    from assay.reports.table import Table
    from assay.reports.terminal import console, show
    from assay.verify import claim, claim_verdict

    verdicts = {path.stem: claim_verdict.judge(claim.load(path)) for path in paths}
    counts: dict[str, int] = {}
    for verdict in verdicts.values():
        counts[verdict.word] = counts.get(verdict.word, 0) + 1
    holding = not {"unsupported", "refuted"} & counts.keys()
    if as_json:
        for name, verdict in verdicts.items():
            print(json.dumps({"claim": name, **asdict(verdict)}))
        return holding
    told = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    print(f"{'PASS' if holding else 'FAIL'}  {len(verdicts)} claims: {told}")
    rows = tuple(
        (v.word, name, "{:.4g} to {:.4g}".format(*v.interval) if v.interval else "—", v.reason)
        for name, v in sorted(verdicts.items(), key=lambda item: (item[1].word, item[0]))
    )
    columns = ("verdict", "claim", "95 % of the median", "why")
    show(Table(title="Claims", columns=columns, rows=rows, spare=(columns[2],)), console())
    return holding
