"""Both are compiled, or neither is."""

from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, alike, same_symbols


def look(comparison: RunComparison) -> list[CheckFinding]:
    if len(comparison.runs) < 2:
        return []
    values = [(run.name, run.run.compiled) for run in comparison.runs]
    return [alike("compiled", values), *same_symbols(comparison, "TRAIN_COMPILED")]
