"""Inputs that are not contiguous in memory: transposed, strided, offset, expanded."""

from dataclasses import replace

from assay.correctness import judge
from assay.correctness.cases import CaseGenerator
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import LAYOUTS, WorkloadSpec
from assay.workloads.workload import Workload


def cases(generator: CaseGenerator) -> list[WorkloadSpec]:
    """Return each layout causal and full, in a quick check causal only; dtypes take turns."""
    layouts = [layout for layout in LAYOUTS if layout != "plain"]
    return [
        generator.spec(
            batch=3,
            heads=4,
            kv_heads=2 if causal else 4,
            query_length=33,
            key_length=65 if causal else 33,
            dtype=generator.dtypes[(number + shift) % len(generator.dtypes)],
            causal=causal,
            layout=layout,
        )
        for number, layout in enumerate(layouts)
        for shift, causal in enumerate((True,) if generator.quick else (True, False))
    ]


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Compare output, LSE and gradients; unsupported where contiguous memory is wrong too."""
    comparisons = judge.compare_all(call)
    if not all(c.holds for c in comparisons):
        plain = call.on(replace(workload, spec=replace(workload.spec, layout="plain")))
        if not judge.is_right(plain):
            return [judge.unsupported("strides", "it is wrong in contiguous memory too")]
    cause = "memory is read as if it were contiguous: strides or the offset are not used"
    return [judge.worst("strides", comparisons, f"in {workload.spec.layout} memory, ", cause)]
