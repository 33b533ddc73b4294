"""The same devices: model, memory and how many."""

from assay.verify.compared import RunComparison
from assay.verify.finding import CheckFinding, alike


def look(comparison: RunComparison) -> list[CheckFinding]:
    if not any(run.run.devices for run in comparison.runs):
        return []
    findings = []
    for what, key in (("device", "name"), ("memory of a device", "memory_bytes")):
        values = [
            (r.name, d.get(key) if d else None) for r in comparison.runs for d in r.gpus or [None]
        ]
        findings.append(alike(what, values))
    counts = [(run.name, len(run.run.devices or ()) or None) for run in comparison.runs]
    return [*findings, alike("number of devices", counts)]
