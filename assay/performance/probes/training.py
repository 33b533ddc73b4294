"""Time of the forward and the backward pass together."""

from functools import partial

from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.contract import Subject
from assay.subjects.outcome import require_backward

PAIRED = True
NEEDS = ("accuracy", "gradients", "kernels", "work")
INSTRUMENTS = ("clock",)


def measure(subject: Subject, workload: object, host: Host) -> list[Measurement]:
    """One sample in milliseconds."""
    require_backward(subject)
    arguments = (subject.apply, subject.inputs, subject.grad_out, subject.state)
    both = partial(subject.framework.trained, *arguments)
    elapsed_ms = subject.timer.time(both, gives=subject.gradient_names)
    return subject.timer.measurements("training_ms", elapsed_ms)
