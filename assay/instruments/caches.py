"""Bytes to write so that the CPU's caches are cold."""

from functools import cache
from pathlib import Path

_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
_UNKNOWN_BYTES = 8 << 20
_MOST_BYTES = 64 << 20  # writing more would take longer than what is timed


@cache
def to_write() -> tuple[int, str]:
    """Return twice the size of the largest cache that is not too large, and the state in words."""
    sizes = sorted(_bytes(file.read_text()) for file in _FOLDER.glob("index*/size"))
    emptied = [size for size in sizes if 2 * size <= _MOST_BYTES]
    if not emptied:
        return _UNKNOWN_BYTES, f"{_UNKNOWN_BYTES >> 20} MiB written before; cache sizes not known"
    written, largest = 2 * emptied[-1], sizes[-1]
    warm = largest > emptied[-1]
    state = f"the cache of {largest >> 20} MiB may be warm" if warm else "cold"
    return written, f"{state}: {written >> 20} MiB written before"


def _bytes(text: str) -> int:
    """Linux writes 2048K or 32M."""
    number, unit = text.strip()[:-1], text.strip()[-1]
    return int(number) << {"K": 10, "M": 20}[unit]
