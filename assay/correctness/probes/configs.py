"""Every kernel configuration that an implementation may pick, not only the one it does pick."""

from assay.correctness import judge
from assay.correctness.cases import Plan
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload


def cases(plan: Plan) -> list[WorkloadSpec]:
    """Lengths that leave a tail in tiles of any size, causal and full, dtypes in turn."""
    if not plan.configs:
        return []
    found = []
    pairs = ((113, 113), (65, 130)) if plan.quick or not plan.gpu else ((113, 113), (200, 300))
    dims = (32, 64) if plan.quick or not plan.gpu else (16, 64, 80, 128, 256)
    for number, (dim, (queries, keys)) in enumerate(zip(dims, pairs * len(dims), strict=False)):
        for causal in (True, False):
            for dtype in plan.dtypes if plan.gpu else (plan.dtypes[number % len(plan.dtypes)],):
                found.append(
                    plan.spec(
                        query_length=queries,
                        key_length=keys,
                        head_dim=dim,
                        heads=2,
                        kv_heads=1,
                        causal=causal,
                        dtype=dtype,
                    )
                )
    return found


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Output, LSE and gradients with each configuration; one that says it does not fit is left."""
    found = []
    for name in call.implementation.configs:
        try:
            comparisons = judge.everything(call, config=name)
        except ValueError:  # the configuration itself refuses this dtype or head dimension
            continue
        found.append(judge.verdict("configs", comparisons, f"with configuration {name}, "))
    if not found:
        return [judge.failed("configs", "no configuration takes this workload")]
    return found
