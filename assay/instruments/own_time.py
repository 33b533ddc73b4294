"""A clock that stands still while others have the processor.

On a busy machine a process waits for its turn, and a budget of wall-clock time buys less the busier
others are. The kernel counts how long each thread has waited (the second number of its schedstat);
what remains is the time that the same work takes on a quiet machine, with what it sleeps or waits
for a device or for other threads. Where the kernel does not count, it is the wall clock.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from assay.instruments.descendants import recent_descendants

_OWN_THREAD = Path("/proc/thread-self/schedstat")
_TRIES = 5
_LOOK_S = 0.2


def own_seconds() -> float:
    """Seconds on the wall clock, less those that this thread has waited for the processor."""
    return _own_seconds(_OWN_THREAD)


class OwnTimeOf:
    """The same of another process and all that it starts, from now on: while its main thread
    sleeps, what it waits for may wait for the processor. Of what waits at one time, the thread that
    waits longest is taken off."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._last_s = time.monotonic()
        self._waited_s: dict[str, float] | None = None

    def update(self, pid: int) -> float:
        """Return the seconds until now, or until a moment ago: it is looked at now and then."""
        now_s = time.monotonic()
        if now_s - self._last_s < _LOOK_S and self._waited_s is not None:
            return self.seconds
        before = self._waited_s or {}
        self._waited_s = waited = {task: _waited_s(Path(task)) for task in _tasks(pid)}
        # What is new has waited since it began, which at the first look was before.
        grown = (s - before.get(task, 0.0 if before else s) for task, s in waited.items())
        self.seconds += max(0.0, now_s - self._last_s - max(grown, default=0.0))
        self._last_s = now_s
        return self.seconds


def _tasks(pid: int) -> list[str]:
    """The files that say how long each thread of a process, and of all it started, has waited."""
    tasks = []
    for each in recent_descendants(pid, int(time.monotonic() * 10)):
        with suppress(OSError):  # it has just ended
            tasks += [
                f"/proc/{each}/task/{tid}/schedstat" for tid in os.listdir(f"/proc/{each}/task")
            ]
    return tasks


def _own_seconds(thread: Path) -> float:
    """Both clocks are read as of one moment: a wait between them would set this one back."""
    for _ in range(_TRIES):
        waited_s, now_s = _waited_s(thread), time.monotonic()
        if _waited_s(thread) == waited_s:
            break
    return now_s - waited_s


def _waited_s(thread: Path) -> float:
    with suppress(OSError, IndexError, ValueError):
        return int(thread.read_text().split()[1]) / 1e9
    return 0.0
