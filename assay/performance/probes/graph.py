"""How long the forward pass takes without its launches: replayed from a CUDA graph."""

from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.workload import Workload

PAIRED = True
NEEDS = ("accuracy", "kernels")
GPU_ONLY = True
FRAMEWORKS = ("torch",)  # XLA decides by itself what becomes a graph


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """One sample in milliseconds; the graph is captured once and its inputs are written over."""
    replay = call.framework.captured(call.apply, call.inputs, call.state)
    return call.timer.measurements("graph_ms", call.timer.time(replay, gives=("out",)))
