"""A command in a process of its own, with limits on time and memory.

Memory is the resident size of the process, watched from outside: address-space limits would stop
CUDA and XLA, which reserve far more than they use.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

_POLL_S = 0.02

Ending = Literal["finished", "timeout", "oom", "crashed"]


@dataclass(frozen=True, kw_only=True)
class Exit:
    """End of a process, with the reason where it did not finish by itself."""

    ending: Ending
    reason: str | None
    elapsed_s: float


def run(
    command: Sequence[str],
    *,
    stdout: BinaryIO,
    stderr: BinaryIO,
    timeout_s: float,
    memory_bytes: int,
    environment: dict[str, str],
    progress: Path | None = None,
    stall_s: float | None = None,
) -> Exit:
    """Run `command` to its end or to a limit. An interrupt of ours ends it too.

    With `stall_s`, the file `progress` must change at least that often once it is there.
    """
    start = time.monotonic()
    kills_before = kernel_oom_kills()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env=environment,
        start_new_session=True,  # Ctrl-C in a terminal reaches us alone, and we end the group
    )
    try:
        stopped = _watch(process, start + timeout_s, memory_bytes, progress, stall_s)
    finally:
        _end_group(process)
    elapsed_s = time.monotonic() - start
    if stopped == "timeout":
        reason = f"ran longer than {timeout_s:g} s (CELL_TIMEOUT_S)"
        return Exit(ending="timeout", reason=reason, elapsed_s=elapsed_s)
    if stopped == "stalled":
        reason = f"took longer than {stall_s:g} s for one case (CASE_TIMEOUT_S)"
        return Exit(ending="timeout", reason=reason, elapsed_s=elapsed_s)
    if stopped == "oom":
        reason = f"used more than {memory_bytes / 2**30:.1f} GiB of memory (CELL_MEMORY_PERCENT)"
        return Exit(ending="oom", reason=reason, elapsed_s=elapsed_s)
    ending, reason = by_code(process.returncode, kernel_oom_kills() > kills_before)
    return Exit(ending=ending, reason=reason, elapsed_s=elapsed_s)


def exit_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent dies, so that a killed study leaves none.

    Linux only; elsewhere it does nothing.
    """
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent_pid:  # the parent died before the request
        os._exit(1)


def _watch(
    process: subprocess.Popen,
    deadline: float,
    memory_bytes: int,
    progress: Path | None,
    stall_s: float | None,
) -> str | None:
    """Wait for the end; returns the limit that was passed, if one was."""
    while True:
        try:
            process.wait(timeout=_POLL_S)
            return None
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                return "timeout"
            if resident_bytes(process.pid) > memory_bytes:
                return "oom"
            if progress and stall_s and _age_s(progress) > stall_s:
                return "stalled"


def _age_s(file: Path) -> float:
    """Seconds since a file last changed; 0 while it is not there."""
    try:
        return time.time() - file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _end_group(process: subprocess.Popen) -> None:
    """Leave nothing of the process behind, its own children included."""
    with suppress(ProcessLookupError):  # every member has ended by itself
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def by_code(code: int, kernel_killed_something: bool) -> tuple[Ending, str | None]:
    """Return the ending that an exit code stands for, with the reason where it is a bad one."""
    if code == 0:
        return "finished", None
    if code == -signal.SIGKILL and kernel_killed_something:
        return "oom", "the kernel's out-of-memory killer ended the process"
    if code < 0:
        return "crashed", f"the process was ended by {_signal_name(-code)}"
    return "crashed", f"the process ended with exit code {code}"


def _signal_name(number: int) -> str:
    """Name of a signal; most real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def resident_bytes(pid: int) -> int:
    """Resident memory of a process; 0 where it has just ended or the system does not say."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def kernel_oom_kills() -> int:
    """Number of processes that the kernel has killed for want of memory since it started."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
