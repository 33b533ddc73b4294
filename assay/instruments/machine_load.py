"""Load of the machine: the mean number of processes that want a core, and a remark where that is
more than there are cores. Times that were measured then are of a busy machine."""

import os
from collections.abc import Iterator

from assay.records.schema import MACHINE_LOAD, Measurement

# Of the cores. What measures here is part of the load, and may use them all by itself.
_BUSY = 1.25


def read() -> float:
    """Processes that ran or waited for a core, the mean of the last minute; 0 where unknown."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0


def is_busy(load: float) -> bool:
    """True where processes wait for a core because of others than ours."""
    return load > _BUSY * _cores()


def remarks(before: float) -> Iterator[Measurement]:
    """A remark where the machine is busy, or was `before` something was measured; else none."""
    load, cores = max(before, read()), _cores()
    if is_busy(load):
        words = f"the machine was busy: load {load:.1f} on {cores} core{'s' if cores > 1 else ''}"
        yield Measurement(
            metric=MACHINE_LOAD,
            value=load,
            unit="processes",
            reason=f"{words}; times are of a busy machine",
            source="load average of a minute, the larger of before and after",
        )


def _cores() -> int:
    """All cores: the load is that of the whole machine."""
    return os.cpu_count() or 1
