"""The peak of a call on the CPU, from a process that does nothing else.

`python -m assay.performance.memory.isolated REQUEST` prints it as JSON. The kernel keeps the
largest resident size of a process (VmHWM) and sets it back when 5 is written to
/proc/self/clear_refs. Large allocations are made to go back to the system when they are freed, so
that what is resident is what is held. An allocator that keeps freed pages all the same (torch's
build for ARM has mimalloc) would hide what is allocated again, so a tensor of known size is read
back first: where that fails, there is no peak.
"""

import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from assay import host
from assay.captures.inputs import make
from assay.instruments.reading import Peak
from assay.subjects.sequence import SequenceSubject, bind
from assay.workloads.spec import WorkloadSpec

_POLL_S = 0.02
_AVAILABLE_SHARE = 0.9  # of the memory that is free when the process starts
_MAPPED_BYTES = 64 * 1024  # allocations of this size and more are mapped one by one
_M_MMAP_THRESHOLD = -3  # mallopt's name for it, from malloc.h
_PROC = Path("/proc/self")
_KNOWN_BYTES = 32 << 20  # of the tensor that is read back
_TOLERANCE = 0.05
UNSEEN = "the resident size does not show what this allocator hands out"

SOURCE = (
    "an isolated process: VmHWM of one call, reset through /proc/self/clear_refs, minus VmRSS "
    "before, after one unmeasured call; the kernel counts pages (4 KiB) to within 128 KiB or more "
    "for each CPU at work, malloc keeps blocks below 64 KiB, and memory never written does not "
    "count"
)


def peaks(call: SequenceSubject) -> tuple[Peak, Peak | None]:
    """Of the forward pass, and of forward and backward where there is one.

    Raises MemoryError where not even the forward pass has enough.
    """
    if call.implementation.path is None:
        unknown = Peak(value=None, reason="it was not loaded from a file another process can load")
        return unknown, unknown if call.has_backward else None
    request = {
        "name": str(call.implementation.path),
        "spec": call.workload.spec.as_dict(),
        "device": call.device,
    }
    answers = _answers(
        [sys.executable, "-m", "assay.performance.memory.isolated", json.dumps(request)]
    )
    forward = _peak_from(answers, "forward")
    return forward, _peak_from(answers, "training") if call.has_backward else None


def _peak_from(answers: dict[str, Any], direction: str) -> Peak:
    if direction in answers and "blind" in answers:
        return Peak(value=None, reason=f"the isolated process: {answers['blind']}")
    if direction in answers:
        return Peak(value=answers[direction], source=SOURCE)
    if not answers.get("out_of_memory"):
        return Peak(value=None, reason=f"the isolated process: {answers['error']}")
    reason = f"in a process of its own: {answers['error']}"
    if direction == "forward":
        raise MemoryError(reason)
    return Peak(value=None, reason=reason, status="oom")


def _answers(command: list[str]) -> dict[str, Any]:
    """Answers of the process, which stays in our process group, so that it ends when we do."""
    most, ended = _AVAILABLE_SHARE * _available_bytes(), {}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        while process.poll() is None:
            if _status_bytes(Path(f"/proc/{process.pid}"), "VmRSS") > most:
                held = f"it held more than {most / 2**30:.1f} GiB"
                ended = {"out_of_memory": True, "error": held}
                break
            time.sleep(_POLL_S)
    finally:
        process.kill()
        output, _ = process.communicate()
    answers = {"error": f"it ended with code {process.returncode} without an answer"}
    for line in output.splitlines():
        answers |= json.loads(line)
    return answers | ended


def main(argument: str) -> None:
    """Print each peak when it is known, a line each; whatever else is printed goes to stderr."""
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    request = json.loads(argument)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
    workload = make(WorkloadSpec(**request["spec"]))
    call = bind(request["name"], workload, host=host.inspect(), device=request["device"])
    if problem := _blindness(call, libc):  # whether memory suffices can be seen all the same
        print(json.dumps({"blind": problem}), file=output)
    passes = {"forward": call} | ({"training": call.gradients} if call.has_backward else {})
    try:
        for direction, run in passes.items():
            print(json.dumps({direction: resident_peak(run, libc)}), file=output)
    except Exception as error:
        short = isinstance(error, MemoryError) or call.framework.out_of_memory(error)
        failure = {"error": f"{type(error).__name__}: {error}", "out_of_memory": short}
        print(json.dumps(failure), file=output)


def _blindness(call: SequenceSubject, libc: ctypes.CDLL) -> str | None:
    """Say why this process cannot see a peak; None where it reads a known tensor back."""
    values = np.ones((1, 1, 1, _KNOWN_BYTES // 4), np.float32)
    read = resident_peak(lambda: call.framework.place(values, "float32", call.device), libc)
    if abs(read - _KNOWN_BYTES) <= _TOLERANCE * _KNOWN_BYTES:
        return None
    return f"{UNSEEN}: a tensor of {_KNOWN_BYTES:,} B reads as {read:,} B"


def resident_peak(run: Callable[[], Any], libc: ctypes.CDLL) -> int:
    """Rise of the resident size above what it was, during a second call of `run`."""
    run()
    gc.collect()
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    (_PROC / "clear_refs").write_text("5")
    before = _status_bytes(_PROC, "VmRSS")
    kept = run()
    highest = _status_bytes(_PROC, "VmHWM")
    del kept
    return max(0, highest - before)


def _status_bytes(process: Path, name: str) -> int:
    """A size in a process's status; 0 where it has just ended."""
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(s.split()[1]) for s in lines if s.startswith(f"{name}:")), 0)


def _available_bytes() -> float:
    """Memory that can be had without swapping; no limit where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return float("inf")
    sizes = (1024 * int(s.split()[1]) for s in lines if s.startswith("MemAvailable:"))
    return next(sizes, float("inf"))


if __name__ == "__main__":
    main(sys.argv[1])
