"""Memory that was never written must not be read: fresh buffers hold NaN while it runs."""

from assay.correctness import judge
from assay.correctness.cases import Plan
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_CAUSE = "memory that was never written is read: torch.empty, or scratch from an earlier call"


def cases(plan: Plan) -> list[WorkloadSpec]:
    """Tails, rows that see nothing, and lengths around tiles."""
    pairs = (
        ((17, 17), (65, 33)) if plan.quick else ((1, 1), (17, 17), (64, 64), (65, 129), (65, 33))
    )
    return [
        plan.spec(
            query_length=q, key_length=k, heads=2, kv_heads=kv_heads, dtype=dtype, causal=causal
        )
        for q, k in pairs
        for dtype, causal, kv_heads in ((plan.dtypes[0], True, 2), (plan.half(), q > k, 1))
    ]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Output, LSE and gradients with poisoned memory."""
    with call.framework.poisoned(call.device) as can_be:
        if not can_be:
            reason = f"{call.implementation.framework} hands out no unwritten memory"
            return [judge.unsupported("unwritten", reason)]
        comparisons = judge.everything(call)
        call.synchronize()
    if not all(c.holds for c in comparisons) and not all(c.holds for c in judge.everything(call)):
        return [judge.unsupported("unwritten", "it is wrong without poisoned memory too")]
    about = "with NaN in memory not yet written, "
    return [judge.verdict("unwritten", comparisons, about, _CAUSE)]
