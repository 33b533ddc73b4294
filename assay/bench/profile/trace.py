"""Kernels in a timeline that torch's profiler wrote (Chrome's trace format).

The profiler records through CUPTI (on AMD roctracer) every kernel of the process, JAX's and
Triton's too. A device event is a complete event ("ph": "X") in one of three categories.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.bench.profile.operation import Operation

KERNEL = "kernel"
_CATEGORIES = (KERNEL, "gpu_memcpy", "gpu_memset")


@dataclass(frozen=True, kw_only=True)
class Kernel(Operation):
    """One kernel, copy or fill on a device, with what it took of the hardware where told."""

    category: str
    start_us: float
    duration_us: float
    stream: int | None = None
    registers: int | None = None  # of each thread
    shared_bytes: int | None = None  # of each block, static and dynamic
    occupancy: float | None = None  # estimated share of the warps that could be there
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()

    @property
    def end_us(self) -> float:
        return self.start_us + self.duration_us


def read(path: Path) -> list[Kernel]:
    """Device events of a trace file in the order of their start."""
    return kernels_in(json.loads(path.read_text(encoding="utf-8")))


def kernels_in(trace: dict[str, Any]) -> list[Kernel]:
    """As `read`, from the file's content."""
    found = [
        _kernel(event)
        for event in trace["traceEvents"]
        if event.get("ph") == "X" and event.get("cat") in _CATEGORIES
    ]
    return sorted(found, key=lambda kernel: kernel.start_us)


def _kernel(event: dict[str, Any]) -> Kernel:
    told = event.get("args", {})
    occupancy = told.get("est. achieved occupancy %")
    return Kernel(
        name=event["name"],
        category=event["cat"],
        start_us=float(event["ts"]),
        duration_us=float(event["dur"]),
        stream=told.get("stream"),
        registers=told.get("registers per thread"),
        shared_bytes=told.get("shared memory"),
        occupancy=None if occupancy is None else occupancy / 100,
        grid=tuple(told.get("grid", ())),
        block=tuple(told.get("block", ())),
    )


def busy_ms(kernels: Sequence[Kernel]) -> float:
    """How long they took in all, each by itself."""
    return sum(kernel.duration_us for kernel in kernels) / 1e3


def span_ms(kernels: Sequence[Kernel]) -> float:
    """From the start of the first to the end of the last."""
    first = min(kernel.start_us for kernel in kernels)
    return (max(kernel.end_us for kernel in kernels) - first) / 1e3


def streams(kernels: Sequence[Kernel]) -> list[int]:
    """The streams that they ran on."""
    return sorted({kernel.stream for kernel in kernels if kernel.stream is not None})


def longest(kernels: Sequence[Kernel]) -> Kernel | None:
    """The kernel that took longest; copies and fills are no kernels."""
    proper = [kernel for kernel in kernels if kernel.category == KERNEL]
    return max(proper, key=lambda kernel: kernel.duration_us, default=None)
