"""The peak of a call by torch's allocator on a CUDA (or ROCm) device.

Everything that torch and its libraries ask this allocator for is counted, to its granule of 512
bytes. What a library takes from the driver itself is not, nor what other frameworks hold.
"""

import gc
from collections.abc import Callable
from typing import Any

import torch

from assay.bench.memory.peak import Peak

SOURCE = (
    "torch.cuda.max_memory_allocated of one call, reset before it, minus memory_allocated before; "
    "after one unmeasured call, so that libraries' lasting workspaces do not count"
)


def peak(run: Callable[[], Any], device: str) -> Peak:
    """Of `run`, whose result is held until the peak was read."""
    run()
    gc.collect()
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    kept = run()
    torch.cuda.synchronize(device)
    allocated = torch.cuda.max_memory_allocated(device)
    reserved = torch.cuda.max_memory_reserved(device)
    del kept
    return Peak(
        value=allocated - before,
        source=SOURCE,
        reserved_bytes=reserved,
        allocated_bytes=allocated,
    )
