"""Last losses are of the same step, where nothing says of how many tokens they are."""

from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, alike


def look(comparison: RunComparison) -> list[CheckFinding]:
    data = [(place, record.data or {}) for place, record in comparison.ends()]
    if comparison.final() and all("tokens" in entries for _, entries in data):
        return []  # which `budget` compares
    if not data:
        return []
    return [alike("step of the last loss", [(place, e.get("step")) for place, e in data])]
