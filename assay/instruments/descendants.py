"""Processes that a process started, and those that these started, wherever they went.

A child with a session of its own is in no group of ours, and after its parent's end it is init's.
So a process that runs code of others adopts: what loses its parent below it becomes its own child
(PR_SET_CHILD_SUBREAPER). Linux only: elsewhere nothing is adopted and nothing is listed.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

_PATIENCE_S = 2.0  # for processes that were killed to be gone
_POLL_S = 0.002


def adopt() -> None:
    """Make this process the parent of what loses its own below it."""
    if sys.platform == "linux":
        set_child_subreaper = 36  # PR_SET_CHILD_SUBREAPER
        ctypes.CDLL(None).prctl(set_child_subreaper, 1)


def children(pid: int) -> list[int]:
    """The children of a process, whichever of its threads started them; none where it is gone."""
    if not _kernel_lists_children():
        return [child for child, parent in _parents().items() if parent == pid]
    words: list[bytes] = []
    with suppress(OSError):  # a thread, or all of it, has just ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            words += Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split()
    return [int(word) for word in words]


def with_descendants(pid: int) -> list[int]:
    """A process and all that it started, each parent before its children."""
    return [pid, *(each for child in children(pid) for each in with_descendants(child))]


@lru_cache(maxsize=8)
def recent_descendants(pid: int, tenth: int) -> list[int]:
    """The same as of some tenth of a second: to ask a hundred threads takes 1 ms."""
    return with_descendants(pid)


def end_strays(known: Collection[int] = ()) -> None:
    """Kill the children of this process that are not `known`, and all that they started, until none
    is left."""
    deadline = time.monotonic() + _PATIENCE_S
    while strays := [pid for pid in children(os.getpid()) if pid not in known]:
        for pid in [each for stray in strays for each in with_descendants(stray)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in strays:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline:  # a driver holds it; it is dead as soon as it may be
            return
        time.sleep(_POLL_S)


@cache
def _kernel_lists_children() -> bool:
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def _parents() -> dict[int, int]:
    """Every process with its parent; none without /proc."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(fields[1])
    return parents
