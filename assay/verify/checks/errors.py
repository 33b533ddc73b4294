"""Nothing that is called right is beyond its error budget."""

from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named

_BUDGET = "error_over_budget"


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [_of(run) for run in comparison.runs if any(_errors(run))]


def _errors(run: ComparedRun) -> list[tuple[str, float]]:
    return [
        (f"{record.subject} on {record.cell}", record.value)
        for record in run.records
        if record.metric.startswith(_BUDGET) and record.value is not None and record.status == "ok"
    ]


def _of(run: ComparedRun) -> CheckFinding:
    errors = _errors(run)
    if beyond := [place for place, value in errors if value > 1]:
        return fails(f"{run.name}: called ok beyond its budget: {named(beyond)}")
    worst = max(value for _, value in errors)
    return holds(f"{run.name}: errors at most {worst:.3g} of their budgets")
