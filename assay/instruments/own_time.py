"""A clock that stands still while others have the processor.

On a busy machine a process waits for its turn, and a budget of wall-clock time buys less the busier
others are. The kernel counts that wait (the second number of schedstat, for each thread); what
remains is the time that the same work takes on a quiet machine, with what it sleeps or waits for a
device. Where the kernel does not count, it is the wall clock.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

_THREADS = Path("/proc/self/task")


def own_seconds() -> float:
    """Seconds on the wall clock less those that the longest waiting thread has waited so far."""
    return time.monotonic() - _waited_s()


def _waited_s() -> float:
    waited = [0]
    with suppress(OSError):
        for thread in os.listdir(_THREADS):
            with suppress(OSError, IndexError, ValueError):  # it ended, or there is no such count
                waited.append(int((_THREADS / thread / "schedstat").read_text().split()[1]))
    return max(waited) / 1e9
