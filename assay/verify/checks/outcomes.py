"""Nothing that was to be measured is missing: failed, out of memory or time, or refused.

A verdict that something is wrong is a result, and not missing.
"""

from assay.records.schema import CALIBRATION
from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named

_MISSING = ("failed", "oom", "timeout", "refused")


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [_of(run) for run in comparison.runs]


def _of(run: ComparedRun) -> CheckFinding:
    missing = [
        f"{r.cell} {r.metric} ({r.status})"
        for r in run.records
        if r.status in _MISSING and r.value is None and not r.metric.startswith(CALIBRATION)
    ]
    if missing:
        return fails(f"{run.name}: {named(missing)}")
    return holds(f"{run.name}: {len(run.records):,} records, none missing")
