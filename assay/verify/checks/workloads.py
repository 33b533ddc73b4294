"""What is timed in both runs are the same inputs, bit for bit, at the same level."""

from collections import defaultdict

from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, alike, fails, holds, named


def look(comparison: RunComparison) -> list[CheckFinding]:
    if len(comparison.runs) < 2:
        return []
    contents, levels = defaultdict(set), defaultdict(set)
    for run in comparison.runs:
        for record in run.of("latency_ms"):
            if record.workload:
                contents[record.workload.name].add((run.name, record.workload.content))
                levels[record.workload.name].add((run.name, record.level))
    if not contents:
        return []
    found = [alike(f"values of {name}", places) for name, places in contents.items()]
    found += [alike(f"level of {name}", places) for name, places in levels.items()]
    timed = [
        {r.workload.name for r in run.of("latency_ms") if r.workload} for run in comparison.runs
    ]
    if one_sided := sorted(timed[0] ^ timed[1]):
        found.append(fails(f"timed in one run only: {named(one_sided)}"))
    wrong = [finding for finding in found if finding.verdict != "holds"]
    return wrong or [holds(f"{len(timed[0])} workloads have the same values in both")]
