"""A step has the same batch, over all its parts and devices: as set, and as tokens for each step.

How it is cut into micro-batches, accumulated and spread over processes is free.
"""

from assay.records.schema import Record
from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, alike, same_symbols


def look(comparison: RunComparison) -> list[CheckFinding]:
    final = comparison.final()
    findings = same_symbols(comparison, "TRAIN_BATCH")
    if final:
        findings.append(alike("tokens of a step", [(place, _of_step(r)) for place, r in final]))
    return findings


def _of_step(record: Record) -> float | None:
    tokens, step = ((record.data or {}).get(name) for name in ("tokens", "step"))
    known = isinstance(tokens, int) and isinstance(step, int) and step > 0
    return tokens / step if known else None
