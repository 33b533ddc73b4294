"""How long the forward pass of one call takes."""

from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.workload import Workload

PAIRED = True
NEEDS = ("accuracy", "kernels")


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """One sample in milliseconds."""
    return call.timer.measurements("latency_ms", call.timer.time(call, gives=("out",)))
