"""Arms stop by the same rule: steps, tokens or time."""

from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, same_data, same_symbols


def look(comparison: RunComparison) -> list[CheckFinding]:
    symbols = ("TRAIN_STEPS", "TRAIN_MOST_TOKENS", "TRAIN_MOST_SECONDS")
    return [*same_symbols(comparison, *symbols), *same_data(comparison, "stopped_by")]
