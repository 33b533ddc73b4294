"""Changes of the inputs whose effect is known without a reference: what must stay, stays.

Keys in another order; a number added to every score of a row; kv heads written out for each query
head of their group.
"""

from dataclasses import replace

import numpy as np

from assay.correctness import judge
from assay.correctness.cases import Plan
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.expected import expected
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

# Exactly numbers of every dtype. The second is below what masks are filled with, such as -1e4.
_SHIFTS = (128.0, -32768.0)


def cases(plan: Plan) -> list[WorkloadSpec]:
    """Grouped heads, full and causal."""
    pairs = ((33, 65),) if plan.quick else ((33, 65), (130, 130), (64, 257))
    return [
        plan.spec(
            heads=4,
            kv_heads=2 if number % 3 else 4,
            query_length=q,
            key_length=k,
            dtype=dtype,
            causal=causal,
            scale_percent=250,
        )
        for number, (q, k) in enumerate(pairs)
        for causal in (False, True)
        for dtype in plan.dtypes
    ]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Every relation that applies to the workload."""
    if workload.spec.extras:
        return [judge.unsupported("metamorphic", "relations are of plain workloads")]
    found = [_shifted(call, workload, shift) for shift in _SHIFTS]
    if not workload.spec.causal:
        found.append(_permuted(call, workload))
    if workload.spec.heads != workload.spec.kv_heads:
        found.append(_written_out(call, workload))
    return found


def _permuted(call: SequenceSubject, workload: Workload) -> Measurement:
    order = np.random.Generator(np.random.Philox(7)).permutation(workload.spec.key_length)
    other = replace(workload, k=workload.k[:, :, order], v=workload.v[:, :, order])
    text = "the output changes with the order of the keys"
    return _same(call, workload, other, text, "keys are not all treated alike: tiles, or a merge")


def _shifted(call: SequenceSubject, workload: Workload, shift: float) -> Measurement:
    """The last coordinate of q is one and that of k a constant, so every score moves alike."""
    q, k = workload.q.copy(), workload.k.copy()
    q[..., -1], k[..., -1] = 1.0, 0.0
    moved = k.copy()
    moved[..., -1] = shift
    return _same(
        call,
        replace(workload, q=q, k=k),
        replace(workload, q=q, k=moved),
        f"the output changes when {shift:g} x scale is added to every score",
        "hidden scores are filled with a finite number that visible ones fall below, or a row's "
        "largest score is not taken off",
    )


def _written_out(call: SequenceSubject, workload: Workload) -> Measurement:
    spec = workload.spec
    group = spec.heads // spec.kv_heads
    k, v = (np.repeat(array, group, axis=1) for array in (workload.k, workload.v))
    other = replace(workload, spec=replace(spec, kv_heads=spec.heads), k=k, v=v)
    text = "grouped heads give another output than the same kv heads written out"
    return _same(call, workload, other, text, "query heads read the wrong kv head of their group")


def _same(
    call: SequenceSubject, one: Workload, other: Workload, text: str, cause: str
) -> Measurement:
    """Two workloads whose outputs are equal, each within its budget."""
    allowed = sum(expected(w).allowed["out"].largest for w in (one, other))
    outputs = [judge.values(call.on(workload)) for workload in (one, other)]
    moved = np.abs(outputs[0] - outputs[1]) / allowed
    worst = float(np.nan_to_num(moved, nan=np.inf).max())
    if worst > 1:
        text = f"{text}, by {worst:.3g} times what rounding explains"
        return judge.failed("metamorphic", text, cause)
    return judge.holds("metamorphic", worst)
