"""Kernels in a timeline that torch's profiler wrote (Chrome's trace format).

The profiler records through CUPTI (on AMD roctracer) every kernel of the process, JAX's and
Triton's too. A device event is a complete event ("ph": "X") in one of three categories.
"""

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.instruments.operation import Operation

KERNEL = "kernel"
_CATEGORIES = (KERNEL, "gpu_memcpy", "gpu_memset")
_RANGE = "user_annotation"  # of the host; the device's own is stretched to the kernels in it


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


class Unclear(Exception):
    """A timeline does not say which device events are of which call."""


def content(path: Path) -> dict[str, Any]:
    """Read a trace file."""
    return json.loads(path.read_text(encoding="utf-8"))


def by_range(trace: dict[str, Any], name: str, *, count: int) -> list[list[Kernel]]:
    """The device events that begin within each of `count` ranges of the host called `name`.

    What begins outside of them is left out, and so is a copy across an edge: a framework may move
    a constant whenever it likes. Raises Unclear where ranges are missing, or where a kernel is at
    work across an edge, at which the device was to be idle.
    """
    edges = sorted(
        (float(event["ts"]), float(event["ts"]) + float(event["dur"]))
        for event in trace["traceEvents"]
        if _complete(event) and event["cat"] == _RANGE and event["name"] == name
    )
    if len(edges) != count:
        raise Unclear(f"the profiler's timeline has {len(edges)} of the {count} calls")
    starts = [start for start, _ in edges]
    kernels: list[list[Kernel]] = [[] for _ in edges]
    for kernel in kernels_in(trace):
        after = bisect_right(starts, kernel.start_us)
        if after < count and kernel.end_us > starts[after]:
            if kernel.category != KERNEL:
                continue
            raise Unclear(f"{kernel.name} was at work when a call began")
        if after == 0 or kernel.start_us >= edges[after - 1][1]:
            continue
        if kernel.end_us > edges[after - 1][1]:
            raise Unclear(f"{kernel.name} was at work when its call had ended")
        kernels[after - 1].append(kernel)
    return kernels


def _complete(event: dict[str, Any]) -> bool:
    return event.get("ph") == "X" and "cat" in event


def kernels_in(trace: dict[str, Any]) -> list[Kernel]:
    """All device events in the order of their start."""
    kernels = [
        _kernel(event)
        for event in trace["traceEvents"]
        if _complete(event) and event["cat"] in _CATEGORIES
    ]
    return sorted(kernels, key=lambda kernel: kernel.start_us)


def _kernel(event: dict[str, Any]) -> Kernel:
    arguments = event.get("args", {})
    # A kernel that ran held some warps: 0 stands for less than half a percent, and for all kernels
    # with more than 48 KiB of shared memory, which the profiler's estimate takes for impossible.
    occupancy = arguments.get("est. achieved occupancy %") or None
    return Kernel(
        name=event["name"],
        category=event["cat"],
        start_us=float(event["ts"]),
        duration_us=float(event["dur"]),
        stream=arguments.get("stream"),
        registers=arguments.get("registers per thread"),
        shared_bytes=arguments.get("shared memory"),
        occupancy=None if occupancy is None else occupancy / 100,
        grid=tuple(arguments.get("grid", ())),
        block=tuple(arguments.get("block", ())),
    )


def busy_ms(kernels: Sequence[Kernel]) -> float:
    """Sum of the durations."""
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
