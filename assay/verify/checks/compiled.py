"""Both are compiled, or neither is."""

from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, alike


def look(comparison: RunComparison) -> list[CheckFinding]:
    if len(comparison.runs) < 2:
        return []
    return [alike("compiled", [(run.name, run.run.compiled) for run in comparison.runs])]
