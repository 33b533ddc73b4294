"""A word on correctness rests on enough cases."""

from collections import Counter

from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named

FEWEST = 20  # of one subject, over all probes; a quick check has more
SUITES = ("suite", "decode_suite")


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [_of(run) for run in comparison.runs if any(r.stage in SUITES for r in run.records)]


def _of(run: ComparedRun) -> CheckFinding:
    cases: Counter[str] = Counter()
    for record in run.records:
        if record.stage in SUITES and record.subject:
            cases[record.subject] += len(record.samples) if record.status == "ok" else 0
    few = [f"{subject} ({count})" for subject, count in cases.items() if count < FEWEST]
    if few:
        return fails(f"{run.name}: fewer than {FEWEST} cases: {named(few)}")
    return holds(f"{run.name}: at least {min(cases.values())} cases for each subject")
