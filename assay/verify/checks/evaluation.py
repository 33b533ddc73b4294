"""Arms are scored on the same windows of the same stream, as many of them."""

from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, alike, same_data, same_symbols


def look(comparison: RunComparison) -> list[CheckFinding]:
    findings = same_symbols(comparison, "TRAIN_WINDOWS", "TRAIN_EVALS")
    if final := comparison.final():
        counts = [(place, len(record.samples) or None) for place, record in final]
        findings += [*same_data(comparison, "eval_stream"), alike("windows scored", counts)]
    return findings
