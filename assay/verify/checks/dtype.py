"""Both sides of a ratio have one dtype: of the run, the residual stream and each workload."""

from collections import defaultdict

from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, alike, fails, same_symbols

_SYMBOLS = ("TRAIN_DTYPE", "TRAIN_STREAM", "CACHE_DTYPE")


def look(comparison: RunComparison) -> list[CheckFinding]:
    if len(comparison.runs) < 2:
        return []
    values = [(r.name, ", ".join(r.run.dtype) if r.run.dtype else None) for r in comparison.runs]
    findings = [alike("dtype", values), *same_symbols(comparison, *_SYMBOLS)]
    by_workload = defaultdict(list)
    for run in comparison.runs:
        for record in run.records:
            if record.workload and "dtype" in record.workload.spec:
                by_workload[record.workload.name].append((run.name, record.workload.spec["dtype"]))
    mixed = [alike(f"dtype of {name}", values) for name, values in by_workload.items()]
    return [*findings, *(fails(f.reason) for f in mixed if f.verdict == "fails")]
