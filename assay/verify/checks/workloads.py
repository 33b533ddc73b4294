"""Both runs time the same inputs, bit for bit, at the same level and in the same way."""

from collections import defaultdict

from assay.laws.pairs import FEWEST_ROUNDS
from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, alike, fails, holds, named


def look(comparison: RunComparison) -> list[CheckFinding]:
    if len(comparison.runs) < 2:
        return []
    contents, levels = defaultdict(list), defaultdict(list)
    for run in comparison.runs:
        for record in run.of("latency_ms"):
            if record.workload:
                contents[record.workload.name].append((run.name, record.workload.content))
                levels[record.workload.name].append((run.name, record.level))
    if not contents:
        return []
    findings = [alike(f"values of {name}", places) for name, places in contents.items()]
    findings += [alike(f"level of {name}", places) for name, places in levels.items()]
    timed = [
        {r.workload.name for r in run.of("latency_ms") if r.workload} for run in comparison.runs
    ]
    if one_sided := sorted(timed[0] ^ timed[1]):
        findings.append(fails(f"timed in one run only: {named(one_sided)}"))
    findings += _methods(comparison)
    wrong = [finding for finding in findings if finding.verdict != "holds"]
    return wrong or [holds(f"{len(timed[0])} workloads have the same values in both")]


def _methods(comparison: RunComparison) -> list[CheckFinding]:
    """Compare how the subjects of both runs were timed, and count their rounds."""
    methods = defaultdict(list)
    for run in comparison.runs:
        for record in run.of("latency_ms"):
            if record.value is not None:
                methods[record.subject].append((run.name, f"{record.source} in {record.unit}"))
    findings = [alike(f"how {subject} was timed", places) for subject, places in methods.items()]
    few = [
        f"{run.name} {record.subject}"
        for run in comparison.runs
        for record in run.of("latency_ms")
        if record.value is not None and len(record.samples) < FEWEST_ROUNDS
    ]
    if few:
        findings.append(fails(f"fewer than {FEWEST_ROUNDS} rounds: {named(few)}"))
    return findings
