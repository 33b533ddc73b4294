"""A value is what its samples give, and no time or size is below zero."""

from math import isclose
from statistics import fmean, median

from assay.records.schema import Record
from assay.verify.compared import FINAL, ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named

_STATISTICS = (median, fmean, min, max, sum)
_OURS = (FINAL, "val_loss", "latency_ms", "backward_ms", "training_ms")
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
    findings = (
        [fails(f"{run.name}: not what their samples give: {named(foreign)}")] if foreign else []
    )
    if negative:
        findings.append(fails(f"{run.name}: below zero: {named(negative)}"))
    if not findings and sampled:
        findings.append(holds(f"{run.name}: {len(sampled):,} values are what their samples give"))
    return findings


def _is_of_its_samples(record: Record) -> bool:
    """True where a value of ours is a statistic of its samples; any other may be a percentile."""
    low, high = min(record.samples), max(record.samples)
    if record.metric not in _OURS and low <= record.value <= high:
        return True
    return any(isclose(record.value, of(record.samples), rel_tol=1e-6) for of in _STATISTICS)
