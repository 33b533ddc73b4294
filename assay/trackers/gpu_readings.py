"""Readings of GPUs under one set of names, whichever tracker took them.

    W&B       system.gpu.0.gpu, .memory, .memoryAllocated, .powerWatts, .temp ...
    trackio   gpu/0/utilization, memory_utilization, memory_usage, power, temp ...
    assay     device/utilisation, device/power_w ...: one device, that of the run

NVML's two utilisations are times, not amounts. `busy` is the share of time in which at least one
kernel ran: one small kernel after the other makes 100 %. `bus_busy` is the share of time in which
memory was read or written: a low value says that memory was mostly left alone, so bandwidth is
then not what a run waits for. `held` is how much memory is taken, and says nothing about traffic.
https://docs.nvidia.com/deploy/nvml-api/structnvmlUtilization__t.html
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from assay.trackers.run import DEVICE, TrackerRun

QUANTITIES = {
    "busy": "%", "bus_busy": "%", "held": "%", "held_bytes": "B", "power": "W", "limit": "W",
    "of_limit": "%", "temperature": "°C", "clock": "MHz",
}  # fmt: skip
OWN = "device"  # the one device whose readings assay's mirrors send
_WANDB = re.compile(r"system\.gpu\.(\d+)\.(\w+)")
_TRACKIO = re.compile(r"gpu/(\d+)/(\w+)")
_GIB = 1024.0**3
# The quantity, and what one unit of the tracker's is of ours.
_OF_WANDB = {
    "gpu": ("busy", 1.0), "memory": ("bus_busy", 1.0), "memoryAllocated": ("held", 1.0),
    "memoryAllocatedBytes": ("held_bytes", 1.0), "powerWatts": ("power", 1.0),
    "enforcedPowerLimitWatts": ("limit", 1.0), "powerPercent": ("of_limit", 1.0),
    "temp": ("temperature", 1.0), "smClock": ("clock", 1.0),
}  # fmt: skip
_OF_TRACKIO = {
    "utilization": ("busy", 1.0), "memory_utilization": ("bus_busy", 1.0),
    "memory_usage": ("held", 100.0), "allocated_memory": ("held_bytes", _GIB),
    "power": ("power", 1.0), "power_limit": ("limit", 1.0), "power_percent": ("of_limit", 1.0),
    "temp": ("temperature", 1.0), "sm_clock": ("clock", 1.0),
}  # fmt: skip
_OF_ASSAY = {
    "utilisation": ("busy", 1.0), "power_w": ("power", 1.0), "temperature_c": ("temperature", 1.0),
    "sm_clock_mhz": ("clock", 1.0),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GpuReading:
    """A sample of one GPU; time in seconds."""

    time: float
    values: Mapping[str, float]  # by QUANTITIES


def known_as(name: str) -> tuple[str, str, float] | None:
    """GPU, quantity and factor of a reading's name; None where it is of something else."""
    for pattern, names in ((_WANDB, _OF_WANDB), (_TRACKIO, _OF_TRACKIO)):
        matched = pattern.fullmatch(name)
        if matched and matched[2] in names:
            return matched[1], *names[matched[2]]
    own = _OF_ASSAY.get(name.removeprefix(DEVICE)) if name.startswith(DEVICE) else None
    return (OWN, *own) if own else None


def gpu_readings(run: TrackerRun) -> tuple[dict[str, list[GpuReading]], int]:
    """The samples of each GPU in the order of time, and how many rows are left out without one."""
    by_gpu: dict[str, list[GpuReading]] = {}
    untimed = 0
    for entry in run.system:
        values: dict[str, dict[str, float]] = {}
        for name, value in entry.values.items():
            if known := known_as(name):
                gpu, quantity, factor = known
                values.setdefault(gpu, {})[quantity] = factor * value
        untimed += bool(values) and entry.time is None
        for gpu, read in values.items():
            if entry.time is not None:
                by_gpu.setdefault(gpu, []).append(GpuReading(time=entry.time, values=read))
    ordered = sorted(by_gpu, key=lambda gpu: (not gpu.isdigit(), int(gpu) if gpu.isdigit() else 0))
    return {gpu: sorted(by_gpu[gpu], key=lambda r: r.time) for gpu in ordered}, untimed
