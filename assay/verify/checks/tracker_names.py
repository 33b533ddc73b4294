"""A tracker's run is read under our names: each of them is given, and what the run does not say."""

from collections import defaultdict

from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, holds, not_tested


def look(comparison: RunComparison) -> list[CheckFinding]:
    runs = [run for run in comparison.runs if run.origin]
    return [*(finding for run in runs for finding in _of(run)), *_names(runs)]


def _of(run: ComparedRun) -> list[CheckFinding]:
    origin = run.origin
    assert origin is not None
    findings = [not_tested(f"{run.name}: {remark}") for remark in origin.remarks]
    if origin.unsaid:
        findings.append(not_tested(f"{run.name}: not in its tracker: {', '.join(origin.unsaid)}"))
    if origin.mirrored:
        findings.append(holds(f"{run.name}: {len(run.run.config)} symbols, mirrored by assay"))
    return findings


def _names(runs: list[ComparedRun]) -> list[CheckFinding]:
    """A finding for each name that ours stands for, with the runs that have it."""
    places = defaultdict(list)
    for run in runs:
        for ours, own in run.origin.read_as.items() if run.origin else ():
            places[ours, own].append(run.name)
    return [
        holds(f"{ours} is {own} in {' and '.join(names)}") for (ours, own), names in places.items()
    ]
