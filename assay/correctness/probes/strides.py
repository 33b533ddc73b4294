"""Inputs that do not lie in memory one after another: transposed, strided, offset, expanded."""

from dataclasses import replace

from assay.correctness import judge
from assay.correctness.cases import Plan
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import LAYOUTS, WorkloadSpec
from assay.workloads.workload import Workload


def cases(plan: Plan) -> list[WorkloadSpec]:
    """Each layout, with and without a mask; the dtypes take turns."""
    found = []
    layouts = [layout for layout in LAYOUTS if layout != "plain"]
    for number, layout in enumerate(layouts):
        for shift, causal in enumerate((True,) if plan.quick else (True, False)):
            found.append(
                plan.spec(
                    batch=3,
                    heads=4,
                    kv_heads=2 if causal else 4,
                    query_length=33,
                    key_length=65 if causal else 33,
                    dtype=plan.dtypes[(number + shift) % len(plan.dtypes)],
                    causal=causal,
                    layout=layout,
                )
            )
    return found


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Output, LSE and gradients; what is wrong in plain memory too does not come from strides."""
    comparisons = judge.everything(call)
    if not all(c.holds for c in comparisons):
        plain = call.on(replace(workload, spec=replace(workload.spec, layout="plain")))
        if not all(c.holds for c in judge.everything(plain)):
            return [judge.unsupported("strides", "it is wrong in contiguous memory too")]
    cause = "memory is read as if it were contiguous: strides or the offset are not used"
    return [judge.verdict("strides", comparisons, f"in {workload.spec.layout} memory, ", cause)]
