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


def own_seconds() -> float:
    """Seconds on the wall clock, less those that this thread has waited for the processor."""
    return time.monotonic() - _waited_s()


def _waited_s() -> float:
    with suppress(OSError, IndexError, ValueError):
        return int(_OWN_THREAD.read_text().split()[1]) / 1e9
    return 0.0
