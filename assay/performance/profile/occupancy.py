"""Occupancy of a kernel: the share of a multiprocessor's warps that it can fill.

Computed where the profiler's own estimate is missing, which it is for each kernel with more than
48 KiB of shared memory. Rules of the CUDA occupancy calculator: registers are given to a warp in
units of 256, shared memory to a block in units of 128 bytes with 1 KiB of the driver's.
"""

import math
from dataclasses import dataclass
from typing import Any

from assay.performance.profile.trace import Kernel

_REGISTER_UNIT, _SHARED_UNIT, _DRIVER_BYTES = 256, 128, 1024


@dataclass(frozen=True, kw_only=True)
class Multiprocessor:
    """Resources of each of `count` multiprocessors."""

    count: int
    threads: int
    warp: int
    registers: int
    shared_bytes: int


def multiprocessor(properties: Any) -> Multiprocessor | None:
    """Of a device, by torch's account of it; None where that lacks something, and on AMD."""
    try:
        unit = Multiprocessor(
            count=properties.multi_processor_count,
            threads=properties.max_threads_per_multi_processor,
            warp=properties.warp_size,
            registers=properties.regs_per_multiprocessor,
            shared_bytes=properties.shared_memory_per_multiprocessor,
        )
    except AttributeError:
        return None
    return unit if unit.warp == 32 else None


def estimated(kernel: Kernel, unit: Multiprocessor) -> float | None:
    """As large as registers, shared memory and the number of blocks let it be; None where unknown.

    The limit on blocks of one multiprocessor is not looked at: it binds small blocks only.
    """
    if kernel.registers is None or kernel.shared_bytes is None or not kernel.block:
        return None
    warps = math.ceil(math.prod(kernel.block) / unit.warp)
    registers = _rounded(kernel.registers * unit.warp, _REGISTER_UNIT)
    shared = _rounded(kernel.shared_bytes, _SHARED_UNIT) + _DRIVER_BYTES
    most = unit.threads // unit.warp
    fitting = min(most // warps, unit.shared_bytes // shared)
    if registers:
        fitting = min(fitting, unit.registers // registers // warps)
    blocks = min(fitting, math.prod(kernel.grid) / unit.count) if kernel.grid else fitting
    return blocks * warps / most or None


def _rounded(size: int, unit: int) -> int:
    return math.ceil(size / unit) * unit
