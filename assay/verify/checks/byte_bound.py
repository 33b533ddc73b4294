"""Nothing was faster than its bytes and operations allow on the machine as it was measured."""

from assay.laws.byte_bound import unread
from assay.laws.rates import rates
from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named, not_tested


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [_of(run) for run in comparison.runs if run.of("latency_ms")]


def _of(run: ComparedRun) -> CheckFinding:
    by_record = rates(run.records)
    too_fast = [
        f"{r.subject} on {r.cell}: {by_record[id(r)].suspect}"
        for r in run.records
        if id(r) in by_record and by_record[id(r)].suspect
    ]
    if wrong := [*too_fast, *unread(run.records)]:
        return fails(f"{run.name}: beyond what bytes and operations allow: {named(wrong)}")
    bounded = [rate for rate in by_record.values() if rate.share is not None]
    if not bounded:
        return not_tested(f"{run.name}: no measured ceiling applies to its times")
    highest = max(rate.share for rate in bounded)
    return holds(f"{run.name}: {len(bounded)} times reach at most {highest:.2f} of their ceiling")
