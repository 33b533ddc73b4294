"""A value is what its samples give, and no time or size is below zero."""

from math import isclose
from statistics import fmean, median

from assay.records.schema import Record
from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named

_STATISTICS = (median, fmean, min, max, sum)
_NEVER_NEGATIVE = ("ms", "s", "B", "GB/s", "TFLOP/s", "tokens/s", "count")


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [finding for run in comparison.runs for finding in _of(run)]


def _of(run: ComparedRun) -> list[CheckFinding]:
    # A verdict that fails tells the smallest case that does.
    sampled = [r for r in run.records if r.samples and r.value is not None and r.status == "ok"]
    foreign = [f"{r.cell} {r.metric}" for r in sampled if not _is_of_its_samples(r)]
    negative = [
        f"{r.cell} {r.metric}"
        for r in run.records
        if r.unit in _NEVER_NEGATIVE and min([r.value or 0, *r.samples]) < 0
    ]
    found = [fails(f"{run.name}: not what their samples give: {named(foreign)}")] if foreign else []
    if negative:
        found.append(fails(f"{run.name}: below zero: {named(negative)}"))
    if not found and sampled:
        found.append(holds(f"{run.name}: {len(sampled):,} values are what their samples give"))
    return found


def _is_of_its_samples(record: Record) -> bool:
    return any(isclose(record.value, of(record.samples), rel_tol=1e-6) for of in _STATISTICS)
