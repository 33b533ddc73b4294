"""Every parameter of a trained model has moved."""

from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named, not_tested


def look(comparison: RunComparison) -> list[CheckFinding]:
    final = comparison.final()
    if not final:
        return []
    moved = {
        f"{run.name} {r.cell}": r.value
        for run in comparison.runs
        for r in run.of("unmoved_parameters")
    }
    if stuck := [place for place, count in moved.items() if count]:
        return [fails(f"parameters that did not move: {named(stuck)}")]
    if silent := [place for place, _ in final if moved.get(place) is None]:
        return [not_tested(f"not said whether all parameters moved: {named(silent)}")]
    return [holds(f"all parameters moved in {len(moved)} runs")]
