"""The peak of a call on the CPU, from a process that does nothing else and may run out of memory.

What counts is what the framework's allocator handed out, where the framework says so; the resident
size is the second witness, and the only one elsewhere. The kernel keeps the largest resident size
of a process (VmHWM) and sets it back when 5 is written to /proc/self/clear_refs; large allocations
are made to go back to the system when they are freed. That misses what an allocator keeps and hands
out again (torch's build for ARM has mimalloc, which keeps all), so it can only show too little.
Before an instrument counts, it must read back an array of known size.
"""

import ctypes
import gc
import random
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from assay.instruments import forks
from assay.instruments.forks import Answers
from assay.instruments.out_of_memory import ran_out
from assay.instruments.reading import Peak
from assay.subjects import forked
from assay.subjects.sequence import SequenceSubject

_TIMEOUT_S = 600.0
_AVAILABLE_SHARE = 0.9  # of the memory that is free when the process starts
_MAPPED_BYTES = 64 * 1024  # allocations of this size and more are mapped one by one
_M_MMAP_THRESHOLD = -3  # mallopt's name for it, from malloc.h
_PROC = Path("/proc/self")
# Of the array that is read back, drawn anew so that no earlier reading passes for it.
_DRAW = random.SystemRandom()  # which no subject can seed
_FEWEST_KNOWN_BYTES, _MOST_KNOWN_BYTES = 16 << 20, 48 << 20
_TOLERANCE = 0.05
# What the resident size may show above what was counted: code and tables that a library loads.
_UNCOUNTED_SHARE, _UNCOUNTED_BYTES = 0.1, 8 << 20

RESIDENT_SOURCE = (
    "VmHWM of one call, reset through /proc/self/clear_refs, minus VmRSS before, after one "
    "unmeasured call; the kernel counts pages (4 KiB) to within 128 KiB or more for each CPU at "
    "work, malloc keeps blocks below 64 KiB, and memory never written does not count"
)


def peaks(call: SequenceSubject) -> tuple[Peak, Peak | None]:
    """Of the forward pass, and of forward and backward where there is one.

    Raises MemoryError where not even the forward pass has enough.
    """
    answers = forked.ask(
        "assay.performance.memory.isolated:answer",
        call,
        call.workload.spec,
        timeout_s=_TIMEOUT_S,
        memory_bytes=_AVAILABLE_SHARE * available if (available := _available_bytes()) else None,
    )
    if answers is None:
        unknown = Peak(value=None, reason="it was not loaded from a file another process can load")
        return unknown, unknown if call.has_backward else None
    forward = _peak_from(answers, "forward")
    return forward, _peak_from(answers, "training") if call.has_backward else None


def known_array(framework: ModuleType, size: int) -> Peak:
    """The peak of making an array of `size` bytes, read in a process of its own."""
    answers = forks.ask(
        "assay.performance.memory.isolated:answer_known",
        {"framework": framework.__name__, "size": size},
        imports=(framework.__name__,) if framework.__name__.startswith("assay.") else (),
        timeout_s=_TIMEOUT_S,
    )
    if "value" not in answers.values:
        return Peak(value=None, reason=f"in a process of its own: {answers.ending}")
    return _witnessed(**answers.values)


def _peak_from(answers: Answers, direction: str) -> Peak:
    values = answers.values
    if direction in values and "blind" in values:
        return Peak(value=None, reason=f"in a process of its own: {values['blind']}")
    if direction in values:
        return _witnessed(**values[direction])
    reason = f"in a process of its own: {values.get('error', answers.ending)}"
    if not (values.get("out_of_memory") or answers.out_of_memory):
        return Peak(value=None, reason=reason)
    if direction == "forward":
        raise MemoryError(reason)
    return Peak(value=None, reason=reason, status="oom")


def _witnessed(value: int, resident: int, source: str) -> Peak:
    """The peak, or null where the resident size shows that much was allocated past the count."""
    if resident <= value + max(_UNCOUNTED_BYTES, _UNCOUNTED_SHARE * value):
        return Peak(value=value, source=f"an isolated process: {source}")
    reason = f"{value:,} B were counted, but the resident size rose by {resident:,} B"
    return Peak(value=None, reason=f"{reason}: memory is taken past the framework's allocator")


def answer(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each peak when it is known."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
    call = forked.bound(request)
    size = 4 * _DRAW.randrange(_FEWEST_KNOWN_BYTES // 4, _MOST_KNOWN_BYTES // 4)
    if problem := _blindness(
        call.framework, size, libc
    ):  # whether memory suffices can be seen all the same
        yield {"blind": problem}
    passes = {"forward": call} | ({"training": call.gradients} if call.has_backward else {})
    try:
        for direction, run in passes.items():
            peak, resident = read(call.framework, run, libc)
            yield {direction: {"value": peak.value, "resident": resident, "source": peak.source}}
    except Exception as error:
        yield {"error": f"{type(error).__name__}: {error}", "out_of_memory": ran_out(error)}


def answer_known(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what an array of known size is read as."""
    framework, libc = import_module(request["framework"]), ctypes.CDLL(None)
    peak, resident = _read_known(framework, request["size"], libc)
    yield {"value": peak.value, "resident": resident, "source": peak.source}


def _blindness(framework: ModuleType, size: int, libc: ctypes.CDLL) -> str | None:
    """Say why this process cannot see a peak; None where it reads a known array back."""
    peak, _ = _read_known(framework, size, libc)
    if abs(peak.value - size) <= _TOLERANCE * size:
        return None
    return f"an array of {size:,} B reads as {peak.value:,} B ({peak.source})"


def _read_known(framework: ModuleType, size: int, libc: ctypes.CDLL) -> tuple[Peak, int]:
    values = np.ones((1, 1, 1, size // 4), np.float32)
    return read(framework, lambda: framework.place(values, "float32", "cpu"), libc)


def read(framework: ModuleType, run: Callable[[], Any], libc: ctypes.CDLL) -> tuple[Peak, int]:
    """Peak of `run` by the framework's own count where it has one, and the rise of the resident
    size in another call, since counting takes memory too; both after an unmeasured call."""
    run()
    gc.collect()
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    (_PROC / "clear_refs").write_text("5")
    before = _status_bytes("VmRSS")
    kept = run()
    resident = _status_bytes("VmHWM") - before
    del kept
    if hasattr(framework, "counted_peak"):
        return framework.counted_peak(run), resident
    return Peak(value=resident, source=RESIDENT_SOURCE), resident


def _status_bytes(name: str) -> int:
    lines = (_PROC / "status").read_text().splitlines()
    return next(1024 * int(s.split()[1]) for s in lines if s.startswith(f"{name}:"))


def _available_bytes() -> int | None:
    """Memory that can be had without swapping; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    sizes = (1024 * int(s.split()[1]) for s in lines if s.startswith("MemAvailable:"))
    return next(sizes, None)
