"""The rate is the same as set, and as it was at each step that recorded it.

Where optimizers are compared each has a rate of its own: then only runs of one entry are held
together.
"""

from collections import defaultdict

from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, alike, fails, holds, named, same_symbols

_SYMBOLS = ("TRAIN_LEARNING_RATE", "TRAIN_LEAST_LEARNING_RATE", "TRAIN_WARMUP")


def look(comparison: RunComparison) -> list[CheckFinding]:
    findings = same_symbols(comparison, *_SYMBOLS)
    if not {"TRAIN_OPTIMIZERS", *_SYMBOLS} & set(comparison.treated):
        findings += _as_recorded(comparison)
    return findings


def _as_recorded(comparison: RunComparison) -> list[CheckFinding]:
    steps = defaultdict(list)
    for run in comparison.runs:
        for record in run.of("learning_rate"):
            entry = record.subject.partition("/")[2]
            step = (record.data or {}).get("step")
            if step is not None:
                steps[entry, step].append((run.name, record.value))
    if not steps:
        return []
    differing = {
        step: compared.reason
        for (_, step), values in steps.items()
        if (compared := alike(f"the rate at step {step}", values)).verdict == "fails"
    }
    if not differing:
        return [holds(f"recorded rates agree at {len(steps)} steps")]
    at = named([str(step) for step in differing])
    return [fails(f"{next(iter(differing.values()))} (steps {at})")]
