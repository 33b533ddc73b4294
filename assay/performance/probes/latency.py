"""Time of the forward pass of one call."""

from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.contract import Subject

PAIRED = True
NEEDS = ("accuracy", "kernels", "work")
INSTRUMENTS = ("clock",)


def measure(subject: Subject, workload: object, host: Host) -> list[Measurement]:
    """One sample in milliseconds."""
    elapsed_ms = subject.timer.time(subject, gives=("out",))
    return subject.timer.measurements("latency_ms", elapsed_ms)
