"""Instruments read a known quantity back before their numbers counted."""

import re

from assay.records.schema import CALIBRATION, Record
from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named, not_tested

_MEASURED = ("latency_ms", "tokens_per_s", "forward_peak_bytes", "peak_bytes")


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [_of(run) for run in comparison.runs if any(run.of(metric) for metric in _MEASURED)]


def _is_right(record: Record) -> bool:
    """True where it read what its source says was known, as near as that says."""
    known = re.search(r"known: ([\d.,]+) \S+ within ([\d.]+)%", record.source or "")
    if record.status != "ok" or record.value is None or not known:
        return record.status == "ok"
    right, tolerance = (float(text.replace(",", "")) for text in known.groups())
    # The known quantity is printed with four digits.
    return abs(record.value - right) <= (tolerance / 100 + 1e-3) * right


def _of(run: ComparedRun) -> CheckFinding:
    asked = [record for record in run.records if record.metric.startswith(CALIBRATION)]
    wrong = [f"{r.subject} {r.metric.removeprefix(CALIBRATION)}" for r in asked if not _is_right(r)]
    if wrong:
        return fails(f"{run.name}: not believed: {named(wrong)}")
    if not asked:
        return not_tested(f"{run.name}: no instrument was given a known quantity")
    return holds(f"{run.name}: {len(asked)} instruments read a known quantity back")
