"""Arms have seen as much: the same tokens, but where time is what they all have the same of."""

from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, same_data


def look(comparison: RunComparison) -> list[CheckFinding]:
    rules = {(record.data or {}).get("stopped_by") for _, record in comparison.final()}
    return [] if rules == {"time"} else same_data(comparison, "tokens")
