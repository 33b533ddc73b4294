"""Instruments read a known quantity back before their numbers counted."""

from assay.records.schema import CALIBRATION
from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named, not_tested

_MEASURED = ("latency_ms", "tokens_per_s", "forward_peak_bytes", "peak_bytes")


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [_of(run) for run in comparison.runs if any(run.of(metric) for metric in _MEASURED)]


def _of(run: ComparedRun) -> CheckFinding:
    asked = [record for record in run.records if record.metric.startswith(CALIBRATION)]
    wrong = [f"{r.subject} {r.metric.removeprefix(CALIBRATION)}" for r in asked if r.status != "ok"]
    if wrong:
        return fails(f"{run.name}: not believed: {named(wrong)}")
    if not asked:
        return not_tested(f"{run.name}: no instrument was given a known quantity")
    return holds(f"{run.name}: {len(asked)} instruments read a known quantity back")
