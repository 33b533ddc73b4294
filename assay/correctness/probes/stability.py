"""Values that break kernels: large and huge scores, one-hot softmax, ties, denormals."""

from assay.correctness import judge
from assay.correctness.cases import Plan
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import VALUES, WorkloadSpec
from assay.workloads.workload import Workload


def cases(plan: Plan) -> list[WorkloadSpec]:
    """Each kind of value in each dtype, causal and full; lengths of several tiles."""
    kinds = [kind for kind in VALUES if kind != "normal"]
    lengths = ((65, 65),) if plan.quick else ((65, 65), (17, 129), (130, 130))
    found = []
    for queries, keys in lengths:
        for kind in kinds:
            for number, dtype in enumerate(plan.dtypes):
                for causal in (True, False):
                    if plan.quick and causal != (number % 2 == 0):
                        continue
                    found.append(
                        plan.spec(
                            query_length=queries,
                            key_length=keys,
                            heads=2,
                            kv_heads=1 if causal else 2,
                            head_dim=64 if causal else 32,
                            dtype=dtype,
                            causal=causal,
                            values=kind,
                        )
                    )
    return found


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Output, LSE and gradients."""
    return [judge.verdict("stability", judge.everything(call))]
