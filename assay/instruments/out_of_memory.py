"""Memory that ran out: every spelling of it that is known, and who holds the memory instead.

An error that names itself, such as Python's MemoryError, needs no row. What is no lack of memory,
such as a kernel that asks for more shared memory than a multiprocessor has, must match none.
"""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from assay import devices

_CROWDED = 0.05  # of a device, held by others: more than contexts without work take
_BUSY = 5  # percent of a second in which a kernel of others ran
_LETS_GO_S = 10  # within which a device is given back by a process that has ended
_CONTEXT_BYTES = 600 << 20  # that a CUDA context needs; with less free, a device is full


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """A text that errors of `source` hold where memory ran out."""

    text: str
    source: str
    seen_in: str
    on_device: bool = True  # False for the machine's own memory
    unless: str | None = None  # a text that says that it is something else
    only_where_full: bool = False  # the text has other meanings on a device with free memory


SPELLINGS = (
    Spelling(
        text="DefaultCPUAllocator: can't allocate memory",
        source="torch on x86",
        seen_in="torch 2.11 and 2.13",
        on_device=False,
    ),
    Spelling(
        text="DefaultCPUAllocator: not enough memory",
        source="torch on ARM, which allocates by mimalloc",
        seen_in="torch 2.13",
        on_device=False,
    ),
    Spelling(
        text="CUDA out of memory.",
        source="torch's CUDA allocator, with expandable segments too",
        seen_in="torch 2.11",
    ),
    Spelling(
        text="would exceed allowed memory. (out of memory)",
        source="torch's CUDA allocator with backend:cudaMallocAsync",
        seen_in="torch 2.11",
    ),
    Spelling(
        text="CUDA error: out of memory",
        source="the driver, of a context or of pinned memory, as torch's AcceleratorError",
        seen_in="torch 2.11, driver 580",
    ),
    Spelling(
        text="CUBLAS_STATUS_ALLOC_FAILED", source="cuBLAS on a full device", seen_in="torch 2.11"
    ),
    Spelling(
        text="CUDNN_STATUS_INTERNAL_ERROR",
        source="cuDNN's attention on a full device",
        seen_in="torch 2.11",
        only_where_full=True,
    ),
    Spelling(
        text="CUDNN_STATUS_ALLOC_FAILED",
        source="cuDNN before version 9",
        seen_in="its documentation; not provoked",
    ),
    Spelling(
        text="Triton Error [CUDA]: out of memory",
        source="Triton's launcher",
        seen_in="the source of Triton 3.6; not provoked",
    ),
    Spelling(
        text="with allocator GPU_",
        source="XLA on a GPU, also while it looks for the fastest kernel",
        seen_in="JAX 0.11",
    ),
    Spelling(
        text="RESOURCE_EXHAUSTED: ",
        source="XLA on a CPU",
        seen_in="JAX 0.10 and 0.11",
        on_device=False,
        unless="hared memory",
    ),
    Spelling(
        text="no supported devices found for platform CUDA",
        source="JAX where a full device has no room for a context",
        seen_in="JAX 0.11",
        only_where_full=True,
    ),
)

# In errors of a device or of its libraries. They may be the doing of those who hold the device:
# with no room for a context, a handle or a workspace, each library fails in words of its own.
_OF_DEVICE = (
    *("CUDA error", "CUDA_ERROR_", "CUDA driver", "CUBLAS_STATUS_", "CUDNN_STATUS_", "cuInit"),
    *("Triton Error [CUDA]", "Unable to initialize backend", "DNN library initialization failed"),
)


def ran_out(error: BaseException) -> bool:
    """True where an error says that memory ran out, the machine's or a device's."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    return any(not spelling.only_where_full or _is_full() for spelling in _spellings(error))


def _spellings(error: BaseException) -> list[Spelling]:
    text = str(error)
    return [s for s in SPELLINGS if s.text in text and not (s.unless and s.unless in text)]


def held_by_others(error: BaseException) -> str | None:
    """Say how much of a GPU other processes hold, where its memory is what ran out; None where it
    is the machine's own, or where they hold little."""
    if not any(spelling.on_device for spelling in _spellings(error)):
        return None
    for index, device in enumerate(_memory_of_devices()):
        others = [used for pid, used in device.by_process.items() if not _is_ours(pid)]
        if sum(others) > _CROWDED * device.total:
            held, total = sum(others) / 2**30, device.total / 2**30
            return f"other processes hold {held:.1f} of the {total:.1f} GiB of cuda:{index}"
    return None


def is_of_device(error: BaseException | None) -> bool:
    """True where a device or a library of it failed, which others on it may bring about."""
    while error is not None:
        texts = (*_OF_DEVICE, *(s.text for s in SPELLINGS if s.on_device))
        if any(text in str(error) for text in texts):
            return True
        error = error.__cause__
    return False


def free_bytes(device: str) -> int | None:
    """Free memory of a GPU; None where nothing says it."""
    known = _of(device)
    return known.free if known else None


def others_on(device: str) -> str | None:
    """Say who uses a GPU, asked by a process that has nothing on it; None where nobody does. What
    has just ended needs a moment to let go."""
    until = time.monotonic() + _LETS_GO_S
    while words := _use_of(device):
        if time.monotonic() > until:
            return words
        time.sleep(0.5)
    return None


def wait_for(device: str, needed_bytes: int, patience_s: float) -> None:
    """Wait until a GPU has so much free memory or, where the need is not known, until nobody uses
    it; no longer than `patience_s`."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until and _use_of(device):
        if needed_bytes and (free_bytes(device) or 0) >= needed_bytes:
            return
        time.sleep(1)


def _use_of(device: str) -> str | None:
    known = _of(device)
    if known is None or (known.total - known.free <= _CROWDED * known.total and known.busy < _BUSY):
        return None
    used, total = (known.total - known.free) / 2**30, known.total / 2**30
    return (
        f"other processes hold {used:.1f} of the {total:.1f} GiB of {device}, busy {known.busy} %"
    )


def _of(device: str) -> "_DeviceMemory | None":
    known = dict(enumerate(_memory_of_devices())) if device.startswith("cuda") else {}
    return known.get(int(device.partition(":")[2] or 0))


@dataclass(frozen=True, kw_only=True)
class _DeviceMemory:
    total: int
    free: int
    by_process: dict[int, int]
    busy: int = 0  # percent of the driver's last sample period


def _memory_of_devices() -> Iterator[_DeviceMemory]:
    """Yield what NVML says of each device that this process may use; nothing without NVML."""
    try:
        import pynvml
    except ModuleNotFoundError:
        return
    uuids = [device.uuid for device in devices.find({}) if device.kind == "cuda"]
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        for uuid in filter(None, uuids):
            yield _memory_of(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid))


def _memory_of(pynvml: Any, handle: Any) -> _DeviceMemory:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    busy = 0
    with suppress(pynvml.NVMLError):  # of a part of a GPU it is not known
        busy = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
    return _DeviceMemory(
        total=memory.total,
        free=memory.free,
        by_process={process.pid: process.usedGpuMemory or 0 for process in processes},
        busy=busy,
    )


def _is_full() -> bool:
    return any(device.free < _CONTEXT_BYTES for device in _memory_of_devices())


def _is_ours(pid: int) -> bool:
    """True for this process and those started with it. One that cannot be seen from here may be
    this process under its number outside a container, so it is not called another."""
    try:
        return os.getpgid(pid) == os.getpgrp()
    except ProcessLookupError:
        return True
