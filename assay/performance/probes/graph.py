"""Time of the forward pass without its launches: replayed from a CUDA graph."""

from assay.host import Host
from assay.records.schema import Measurement
from assay.subjects.contract import Subject

PAIRED = True
NEEDS = ("accuracy", "kernels", "work")
INSTRUMENTS = ("clock",)
GPU_ONLY = True
FRAMEWORKS = ("torch",)  # XLA decides by itself what becomes a graph


def measure(subject: Subject, workload: object, host: Host) -> list[Measurement]:
    """One sample in milliseconds; the graph is captured once and its inputs are written over."""
    replay = subject.framework.captured(subject.apply, subject.inputs, subject.state)
    elapsed_ms = subject.timer.time(replay, gives=("out",))
    return subject.timer.measurements("graph_ms", elapsed_ms)
