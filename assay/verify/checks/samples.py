"""A value is what its samples give, and no time or size is below zero."""

from math import isclose
from statistics import fmean, median

from assay.laws.pairs import PAIRED_METRICS
from assay.records.schema import Record
from assay.verify.compared import FINAL, ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named

# By metric, the statistic that its value is; of any other it may be a percentile.
_STATISTICS = {FINAL: fmean, "val_loss": fmean, **dict.fromkeys(PAIRED_METRICS, median)}
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
    """True where a value is the statistic of its samples, or lies among them."""
    if statistic := _STATISTICS.get(record.metric):
        return isclose(record.value, statistic(record.samples), rel_tol=1e-6)
    among = min(record.samples) <= record.value <= max(record.samples)
    return among or isclose(record.value, sum(record.samples), rel_tol=1e-6)
