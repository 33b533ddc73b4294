"""No time was taken while others had the cores."""

from assay.laws.pairs import PAIRED_METRICS
from assay.records.schema import MACHINE_LOAD
from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, named


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [finding for run in comparison.runs for finding in _of(run)]


def _of(run: ComparedRun) -> list[CheckFinding]:
    timed = {(r.stage, r.cell) for r in run.records if r.metric in PAIRED_METRICS}
    busy = [r for r in run.of(MACHINE_LOAD) if (r.stage, r.cell) in timed]
    if not busy:
        return []
    words = (busy[0].reason or "").partition(";")[0]
    return [fails(f"{run.name}: {words}: {named([record.cell for record in busy])}")]
