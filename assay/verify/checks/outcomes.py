"""Nothing that was to be measured is missing: failed, or out of memory or time.

A verdict that something is wrong, and a time that is withheld for it, are results; what was
skipped is counted.
"""

from assay.records.schema import CALIBRATION
from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named

_MISSING = ("failed", "oom", "timeout")
# Stages whose `failed` is a verdict.
_JUDGING = ("suite", "decode_suite", "check", "models")


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [_of(run) for run in comparison.runs]


def _of(run: ComparedRun) -> CheckFinding:
    missing = [
        f"{r.cell} {r.metric} ({r.status})"
        for r in run.records
        if r.status in _MISSING
        and r.value is None
        and not r.metric.startswith(CALIBRATION)
        and not (r.status == "failed" and r.stage in _JUDGING)
    ]
    if missing:
        return fails(f"{run.name}: {named(missing)}")
    skipped = sum(record.status == "skipped" for record in run.records)
    return holds(f"{run.name}: {len(run.records):,} records, {skipped} of them skipped")
