"""Time of the backward pass of one call, without the forward pass before it."""

from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.contract import Subject
from assay.subjects.outcome import require_backward

PAIRED = True
NEEDS = ("accuracy", "gradients", "kernels", "work")
INSTRUMENTS = ("clock",)


def measure(subject: Subject, workload: object, host: Host) -> list[Measurement]:
    """One sample in milliseconds; the forward pass is made anew for it, and not timed."""
    require_backward(subject)
    pull_back = subject.framework.pullback(subject.apply, subject.inputs, subject.state)
    elapsed_ms = subject.timer.time(
        lambda: pull_back(subject.grad_out), gives=subject.gradient_names
    )
    return subject.timer.measurements("backward_ms", elapsed_ms)
