"""Independence of batch entries: each gives the same result alone and beside others."""

from dataclasses import replace

import numpy as np

from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.values import rounded
from assay.workloads.workload import Workload

_CAUSE = "batch entries are mixed up: one is computed with data of another"


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return batches of three and five."""
    sizes = ((3, 33),) if generator.quick else ((3, 33), (5, 65), (3, 129))
    first, half = generator.dtypes[0], generator.half()
    return [
        generator.spec(batch=b, heads=2, kv_heads=kv, length=n, dtype=dtype, causal=causal)
        for b, n in sizes
        for dtype, causal, kv in ((first, True, 2), (half, False, 1))
    ]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare each entry alone with the same entry in the batch; then change its neighbours."""
    if workload.spec.batch == 1 or workload.spec.extras:
        return [judge.unsupported("batch", "a batch of one has no neighbours")]
    together = judge.values(call)
    allowed = 2 * call.expected(workload).allowed["out"].largest
    measurements = []
    for entry in range(workload.spec.batch):
        own = slice(entry, entry + 1)
        single = call.on(_only(workload, own))
        text = f"entry {entry} of the batch differs when it is alone"
        moved = np.abs(judge.values(single) - together[own]) / allowed[own]
        outcome = judge.unmoved("batch", moved, text, _CAUSE)
        if outcome.status != "ok" and not judge.is_right(single):
            outcome = judge.unmoved("batch", moved, text)  # wrong by itself, not by its neighbours
        measurements.append(outcome)
    beside = judge.values(call.on(_loud_neighbours(workload)))
    moved = np.abs(beside - together)[:1] / allowed[:1]
    text = "entry 0 of the batch changes when only other entries do"
    cause = _CAUSE if np.isfinite(together[:1]).all() else None
    return [*measurements, judge.unmoved("batch", moved, text, cause)]


def _only(workload: Workload, entry: slice) -> Workload:
    arrays = {n: getattr(workload, n)[entry] for n in ("q", "k", "v", "grad_out")}
    return replace(workload, spec=replace(workload.spec, batch=1), **arrays)


def _loud_neighbours(workload: Workload) -> Workload:
    """Return the workload with all entries but the first thirty times as large."""
    factor = np.ones((workload.spec.batch, 1, 1, 1), dtype=np.float32)
    factor[1:] = 30.0
    arrays = {
        n: rounded(getattr(workload, n) * factor, workload.spec.dtype) for n in ("q", "k", "v")
    }
    return replace(workload, **arrays)
