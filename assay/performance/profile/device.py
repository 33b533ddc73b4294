"""Kernels of single calls on a device, by torch's profiler, whatever framework launches them.

Starting and ending a profile takes longer than most calls, so there is one for all of them. The
device is idle when a call begins and when it has ended, so that time alone says which kernel is
of which call.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler import profile, record_function

from assay.performance.profile import trace
from assay.performance.profile.trace import Kernel

RANGE = "assay: one call"
FEWEST = 3
ENOUGH_S = 0.1  # of calls; longer ones and those of many kernels make large profiles
# Idle time at both ends of a range: the device's clock is not to the microsecond the host's.
_MARGIN_S = 100e-6


def profiled(
    run: Callable[[], Any], *, before: Callable[[], Any] = lambda: None, calls: int = 5
) -> list[list[Kernel]]:
    """The device events of each call; raises Unclear where they cannot be told apart.

    `before` runs ahead of each call and is not part of it. There are fewer calls, but at least
    FEWEST, where they take longer than ENOUGH_S together. A first call and the first one in the
    profile are not used: the one may compile, at the other the profiler makes its buffers.
    """
    with torch.no_grad():
        _finished(run())
        with profile(use_device="cuda", use_kineto=True) as watched:
            _one(run, before)
            elapsed_s, count = 0.0, 0
            while count < calls and (count < FEWEST or elapsed_s < ENOUGH_S):
                elapsed_s += _one(run, before)
                count += 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        watched.export_chrome_trace(str(path))
        return trace.by_range(trace.content(path), RANGE, count=count + 1)[1:]


def _one(run: Callable[[], Any], before: Callable[[], Any]) -> float:
    """One call as a named range; how long it took in seconds."""
    before()
    torch.cuda.synchronize()
    with record_function(RANGE):
        time.sleep(_MARGIN_S)
        start = time.perf_counter()
        _finished(run())
        elapsed_s = time.perf_counter() - start
        time.sleep(_MARGIN_S)
    return elapsed_s


def _finished(result: Any) -> None:
    """Return when the result is there and the device idle.

    What JAX has not yet handed to the device is waited for first; sending something after it
    would be one kernel more. Then every stream of the device, also those of other frameworks.
    """
    for each in result if isinstance(result, tuple | list) else (result,):
        if hasattr(each, "block_until_ready"):
            each.block_until_ready()
    torch.cuda.synchronize()
