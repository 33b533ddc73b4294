"""How long the forward and the backward pass take together."""

from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject, require_backward
from assay.workloads.workload import Workload

PAIRED = True
NEEDS = ("accuracy", "gradients", "kernels")


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """One sample in milliseconds."""
    require_backward(call)

    def both() -> tuple[object, ...]:
        return call.framework.trained(call.apply, call.inputs, call.grad_out, call.state)

    elapsed_ms = call.timer.time(both, gives=("dq", "dk", "dv"))
    return call.timer.measurements("training_ms", elapsed_ms)
