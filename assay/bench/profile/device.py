"""Kernels of single calls on a device, by torch's profiler, whatever framework launches them.

Every call has a profile of its own and the device is idle before and after it, so that no kernel
can be counted for another call.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from assay.bench.profile import trace
from assay.bench.profile.trace import Kernel


def profiled(
    run: Callable[[], Any],
    *,
    synchronize: Callable[[], None],
    before: Callable[[], Any] = lambda: None,
    calls: int = 5,
) -> list[list[Kernel]]:
    """The device events of each call. `before` runs ahead of each and is not part of it.

    A first call and a first profile are not used: the one may compile, the other starts CUPTI.
    """
    with torch.no_grad():
        run()
        synchronize()
        _one(run, synchronize)
        found = []
        for _ in range(calls):
            before()
            synchronize()
            found.append(_one(run, synchronize))
    return found


def _one(run: Callable[[], Any], synchronize: Callable[[], None]) -> list[Kernel]:
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as watched:
        result = run()
        synchronize()
        torch.cuda.synchronize()  # every stream of the device, also those of other frameworks
    del result
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        watched.export_chrome_trace(str(path))
        return trace.read(path)
