"""A command in a process of its own, with limits on time and memory.

Memory is the resident size of the process and of what it started, watched from outside:
address-space limits would stop CUDA and XLA, which reserve far more than they use.
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

from assay.instruments import progress
from assay.instruments.bounded_file import BoundedFile, appended, trim
from assay.instruments.descendants import recent_descendants
from assay.instruments.own_time import OwnTimeOf
from assay.records.durable import is_full

_POLL_S = 0.02
_STARVED = 10.0  # times as long a process may be there as it may take
# Programs that compile; while one of them runs, a case waits for it.
_COMPILERS = frozenset(
    (
        "cc1",
        "cc1plus",
        "clang",
        "clang++",
        "nvcc",
        "cicc",
        "ptxas",
        "cudafe++",
        "ninja",
        "ld",
        "lto1",
    )
)
_DISK_FULL = os.EX_IOERR  # exit code of a process that could not write

Ending = Literal["finished", "timeout", "oom", "full", "crashed"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a process. With `stall_s`, the file `progress` must change at least that often once
    it is there, unless something compiles. Seconds in which others have the processor do not count.
    """

    timeout_s: float
    memory_bytes: float | None = None
    progress: str | None = None
    stall_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Exit:
    """End of a process, with the reason where it did not finish by itself."""

    ending: Ending
    reason: str | None
    elapsed_s: float
    stalled: bool = False  # there was no progress; a timeout may also be one of all together


def run(
    command: Sequence[str],
    *,
    stdout: BinaryIO,
    stderr: BinaryIO,
    environment: dict[str, str],
    limits: Limits,
) -> Exit:
    """Run `command` to its end or to a limit. An interrupt of ours ends it too. Of what it appends
    to the files, the beginning and the end stay."""
    start = time.monotonic()
    kills_before = kernel_oom_kills()
    # A temporary file without a name has a number for it, and goes when it is closed.
    printed = appended(*(f.name for f in (stdout, stderr) if isinstance(f.name, str)))
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env=environment,
        start_new_session=True,  # Ctrl-C in a terminal reaches us alone, and we end the group
    )
    try:
        stopped = _watch(process, LimitWatch(limits), printed)
    finally:
        kill_group(process.pid)
        process.wait()
        trim(printed, ended=True)
    oom_kills = kernel_oom_kills() > kills_before
    return exit_of(stopped, process.returncode, oom_kills, limits, time.monotonic() - start)


def exit_of(
    stopped: str | None, code: int, oom_kills: bool, limits: Limits, elapsed_s: float
) -> Exit:
    """The end of a cell's process in words: by the limit that it passed, or else by its code."""
    passed: dict[str, tuple[Ending, str]] = {
        "timeout": ("timeout", f"ran longer than {limits.timeout_s:g} s (CELL_TIMEOUT_S)"),
        "stalled": (
            "timeout",
            f"took longer than {limits.stall_s or 0:g} s for one case (CASE_TIMEOUT_S)",
        ),
        "oom": (
            "oom",
            f"used more than {(limits.memory_bytes or 0) / 2**30:.1f} GiB of memory "
            "(CELL_MEMORY_PERCENT)",
        ),
    }
    ending, reason = passed[stopped] if stopped else by_code(code, oom_kills)
    return Exit(ending=ending, reason=reason, elapsed_s=elapsed_s, stalled=stopped == "stalled")


def exit_with_parent(parent_pid: int, number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when its parent dies: a killed study leaves none.

    Linux only; elsewhere it does nothing.
    """
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(set_parent_death_signal, number)
    if os.getppid() != parent_pid:  # the parent died before the request
        os._exit(1)


def _watch(
    process: subprocess.Popen, watch: "LimitWatch", printed: Sequence[BoundedFile]
) -> str | None:
    """Wait for the end; returns the limit that was passed, if one was."""
    while True:
        try:
            process.wait(timeout=_POLL_S)
            return None
        except subprocess.TimeoutExpired:
            trim(printed)
            if stopped := watch.passed(process.pid):
                return stopped


class LimitWatch:
    """The limits of a process that starts now. A wall clock may be set meanwhile, so that the time
    of a file only says that it changed, not when."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._own = limits, OwnTimeOf()
        self._start, self._changed_s = time.monotonic(), 0.0
        self._seen: tuple[int, int] | None = None

    def passed(self, pid: int) -> str | None:
        """The limit that the process has passed by now: timeout, oom or stalled; None for none."""
        limits, own_s = self._limits, self._own.update(pid)
        there_s = time.monotonic() - self._start
        # A process that starves itself, by threads of its own, is there for longer.
        if own_s > limits.timeout_s or there_s > _STARVED * limits.timeout_s:
            return "timeout"
        if limits.memory_bytes is not None and holds_more(pid, limits.memory_bytes):
            return "oom"
        if limits.progress and limits.stall_s:
            seen = _time_and_size(limits.progress)
            if seen is None or seen != self._seen:
                self._seen, self._changed_s = seen, own_s
            if own_s - self._changed_s > limits.stall_s:
                if not (progress.is_compiling(limits.progress) or _compiles(pid)):
                    return "stalled"
                self._changed_s = own_s
        return None


def _compiles(pid: int) -> bool:
    """True where a process has a compiler run."""
    names = set()
    for each in recent_descendants(pid, int(time.monotonic() * 10)):
        with suppress(OSError):
            names.add(Path(f"/proc/{each}/comm").read_text().strip())
    return bool(names & _COMPILERS)


def _time_and_size(file: str) -> tuple[int, int] | None:
    """A mark that changes with a file's content; None while it is not there."""
    try:
        status = os.stat(file)
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size


def kill_group(pid: int) -> None:
    """Leave nothing of a process that leads its group, its own children included."""
    for kill in (os.killpg, os.kill):  # the second for one that does not lead a group yet
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def code_of(error: BaseException) -> int:
    """The exit code of a process that an error ends: a full disk is no fault of its code."""
    return _DISK_FULL if is_full(error) else 1


def by_code(code: int, kernel_killed_something: bool) -> tuple[Ending, str | None]:
    """Return the ending that an exit code stands for, with the reason where it is a bad one."""
    if code == 0:
        return "finished", None
    if code == -signal.SIGKILL and kernel_killed_something:
        return "oom", "the kernel's out-of-memory killer ended the process"
    if code == _DISK_FULL:
        return "full", "a disk is full, a quota used up or a limit to files reached"
    if code < 0:
        return "crashed", f"the process was ended by {_signal_name(-code)}"
    return "crashed", f"the process ended with exit code {code}"


def _signal_name(number: int) -> str:
    """Name of a signal; most real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def holds_more(pid: int, limit_bytes: int) -> bool:
    """True where a process and all that it started hold more memory than a limit. Pages that a
    fork shares count once; to know them is slow, so they are asked for only where resident sizes,
    which count them again in every process, are above the limit."""
    pids = recent_descendants(pid, int(time.monotonic() * 10))
    if sum(map(_resident_bytes, pids)) <= limit_bytes:
        return False
    return len(pids) == 1 or sum(map(_proportional_bytes, pids)) > limit_bytes


def _resident_bytes(pid: int) -> int:
    """Resident memory of a process; 0 where it has just ended or the system does not say."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _proportional_bytes(pid: int) -> int:
    """Resident memory of a process, of shared pages its share; all of it where the kernel does not
    say."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return _resident_bytes(pid)


def kernel_oom_kills() -> int:
    """Number of processes that the kernel has killed for want of memory since it started."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
