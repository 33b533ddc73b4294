"""A remark where times were measured while others had the cores: they are of a busy machine.

Two things say so. The load average counts processes that want a core, over a minute: it is late,
and blind to one that needs less than all. The kernel also counts how long each of our threads was
ready to run and had to wait, which is exact, and of the very time in which something was measured.
One other process on two cores makes a call of two threads take three times as long.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from assay.records.schema import MACHINE_LOAD, Measurement

# Of the cores. What measures here is part of the load, and may use them all by itself.
_BUSY = 1.25
# Of the time in which our threads ran or could have run. On two quiet cores they wait for each
# other in 0.01 of it, those of XLA in 0.12; beside one other process in 0.32 and more.
_MOST_WAITED = 0.25
_THREADS = Path("/proc/self/task")


@dataclass(frozen=True, kw_only=True)
class Load:
    """Processes that ran or waited for a core, the mean of the last minute, and the seconds for
    which all threads of this process ran and waited until now; 0 where unknown."""

    average: float
    ran_s: float
    waited_s: float


def read() -> Load:
    """The load now."""
    try:
        average = os.getloadavg()[0]
    except OSError:
        average = 0.0
    ran_s, waited_s = 0.0, 0.0
    for thread in _THREADS.glob("*/schedstat"):
        with suppress(OSError, ValueError):  # it has ended
            ran, waited, _ = map(int, thread.read_text().split())
            ran_s, waited_s = ran_s + ran / 1e9, waited_s + waited / 1e9
    return Load(average=average, ran_s=ran_s, waited_s=waited_s)


def is_busy(average: float) -> bool:
    """True where processes wait for a core because of others than ours."""
    return average > _BUSY * _cores()


def remarks(before: Load) -> Iterator[Measurement]:
    """A remark where the machine is busy, or was `before` something was measured, or threads waited
    for a core meanwhile; else none."""
    now, cores = read(), _cores()
    average, waited = max(before.average, now.average), _waited(before, now)
    words = f"load {average:.1f} on {cores} core{'s' if cores > 1 else ''}"
    if waited > _MOST_WAITED:
        words += f", and threads waited {100 * waited:.0f} % of their time for one"
    elif not is_busy(average):
        return
    yield Measurement(
        metric=MACHINE_LOAD,
        value=average,
        unit="processes",
        reason=f"the machine was busy: {words}; times are of a busy machine",
        source="load average of a minute, the larger of before and after; schedstat of our threads",
    )


def _waited(before: Load, now: Load) -> float:
    """The share of their time for which our threads had to wait, of those that still live."""
    waited_s = max(0.0, now.waited_s - before.waited_s)
    ran_s = max(0.0, now.ran_s - before.ran_s)
    return waited_s / (waited_s + ran_s) if waited_s else 0.0


def _cores() -> int:
    """All cores: the load is that of the whole machine."""
    return os.cpu_count() or 1
