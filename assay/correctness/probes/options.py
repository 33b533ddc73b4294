"""What an implementation says it accepts beyond the plain call: lengths, window, packing, mask."""

from dataclasses import replace

from assay.correctness import judge
from assay.correctness.cases import Plan
from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

_ASKED = {
    "lengths": ({"padded": True},),
    "window": ({"window": 1}, {"window": 16}, {"window": 33}, {"window": 200}),
    "mask": ({"masked": True},),
    "cu_seqlens": ({"packed": 2, "batch": 1}, {"packed": 5, "batch": 1}),
}


def cases(plan: Plan) -> list[WorkloadSpec]:
    """Each option by itself and with a window, in random shapes."""
    found = []
    for name in sorted(plan.accepts & set(_ASKED)):
        for option in _ASKED[name]:
            for spec in plan.random(2 if plan.quick else 6, f"options/{option}"):
                if spec.query_length * spec.key_length < 100_000:
                    rows = 2 if name == "lengths" and spec.batch == 1 else spec.batch
                    found.append(replace(spec, **{"batch": rows, **option}))
    if {"lengths", "window"} <= plan.accepts:
        both = {"padded": True, "window": 20}
        found += [replace(spec, **both) for spec in plan.random(2, "options/both")]
    return found


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Output, LSE and gradients."""
    return [judge.verdict("options", judge.everything(call))]
