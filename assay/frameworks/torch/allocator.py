"""The peak of a call by torch's allocator on a CUDA (or ROCm) device.

Everything that torch and its libraries ask this allocator for is counted, to its granule of 512
bytes. What a library takes from the driver itself is not, nor what other frameworks hold.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from assay.instruments.reading import Peak

SOURCE = (
    "torch.cuda.max_memory_allocated of one call, reset before it, minus memory_allocated before; "
    "after one unmeasured call, so that libraries' lasting workspaces do not count"
)


def peak(run: Callable[[], Any], device: str, *, generation: int = 2) -> Peak:
    """Of `run`, whose result is held until the peak was read.

    `generation` is the oldest of Python's objects that are collected before. To collect all takes
    longer than most calls once torch, Triton and JAX are loaded: once for each implementation will
    do, since what an old cycle holds was there before and stays while the call is measured.
    """
    run()
    gc.collect(generation)
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    with _uncollected():
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


@contextmanager
def _uncollected() -> Iterator[None]:
    """Within it no cycle is collected: memory freed midway would be missing from the peak."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
