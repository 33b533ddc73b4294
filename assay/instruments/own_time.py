"""A clock that stands still while others have the processor.

On a busy machine a process waits for its turn, and a budget of wall-clock time buys less the busier
others are. The kernel counts how long each thread has waited (the second number of its schedstat);
what remains is the time that the same work takes on a quiet machine, with what it sleeps or waits
for a device or for other threads. Where the kernel does not count, it is the wall clock.
"""

import time
from contextlib import suppress
from pathlib import Path

_OWN_THREAD = Path("/proc/thread-self/schedstat")
_TRIES = 5


def own_seconds() -> float:
    """Seconds on the wall clock, less those that this thread has waited for the processor."""
    return _own_seconds(_OWN_THREAD)


def own_seconds_of(pid: int) -> float:
    """The same of the main thread of another process, whose clock starts with the machine's."""
    return _own_seconds(Path(f"/proc/{pid}/task/{pid}/schedstat"))


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
