"""How long the backward pass of one call takes, without the forward pass before it."""

from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject, require_backward
from assay.workloads.workload import Workload

PAIRED = True
NEEDS = ("accuracy", "gradients", "kernels")


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """One sample in milliseconds; the forward pass is made anew for it, and not timed."""
    require_backward(call)
    pull_back = call.framework.pullback(call.apply, call.inputs, call.state)
    gives = ("dq", "dk", "dv")
    elapsed_ms = call.timer.time(lambda: pull_back(call.grad_out), gives=gives)
    return call.timer.measurements("backward_ms", elapsed_ms)
