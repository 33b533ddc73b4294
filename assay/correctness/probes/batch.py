"""A row of a batch does not depend on its neighbours: alone, or beside other rows."""

from dataclasses import replace

import numpy as np

from assay.correctness import judge
from assay.correctness.cases import Plan
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.expected import expected
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.values import rounded
from assay.workloads.workload import Workload


def cases(plan: Plan) -> list[WorkloadSpec]:
    """Batches of three and five."""
    sizes = ((3, 33),) if plan.quick else ((3, 33), (5, 65), (3, 129))
    return [
        plan.spec(batch=b, heads=2, kv_heads=kv_heads, length=n, dtype=dtype, causal=causal)
        for b, n in sizes
        for dtype, causal, kv_heads in ((plan.dtypes[0], True, 2), (plan.half(), False, 1))
    ]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Each row alone against the same row in the batch; then with loud neighbours."""
    if workload.spec.batch == 1 or workload.spec.extras:
        return [judge.unsupported("batch", "a batch of one has no neighbours")]
    together = judge.values(call)
    allowed = 2 * expected(workload).allowed["out"].largest
    found = []
    for row in range(workload.spec.batch):
        alone = call.on(_only(workload, row))
        moved = np.abs(judge.values(alone) - together[row : row + 1]) / allowed[row : row + 1]
        found.append(_said(moved, f"row {row} of the batch is another when it is alone"))
    beside = call.on(_loud_neighbours(workload))
    moved = np.abs(judge.values(beside) - together)[:1] / allowed[:1]
    return [*found, _said(moved, "row 0 of the batch moves when only other rows change")]


def _only(workload: Workload, row: int) -> Workload:
    arrays = {n: getattr(workload, n)[row : row + 1] for n in ("q", "k", "v", "grad_out")}
    return replace(workload, spec=replace(workload.spec, batch=1), **arrays)


def _loud_neighbours(workload: Workload) -> Workload:
    """All rows but the first are thirty times as large."""
    factor = np.ones((workload.spec.batch, 1, 1, 1), dtype=np.float32)
    factor[1:] = 30.0
    arrays = {
        n: rounded(getattr(workload, n) * factor, workload.spec.dtype) for n in ("q", "k", "v")
    }
    return replace(workload, **arrays)


def _said(moved: np.ndarray, text: str) -> Measurement:
    worst = float(np.nan_to_num(moved, nan=np.inf).max())
    if worst > 1:
        cause = "rows of a batch are mixed: one is computed with what belongs to another"
        return judge.failed("batch", f"{text}, by {worst:.3g} times what rounding explains", cause)
    return judge.holds("batch", worst)
