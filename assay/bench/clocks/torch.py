"""PyTorch: the host clock on the CPU, events on a CUDA (or ROCm) device."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch

from assay.bench import caches

REQUIRES = ("torch",)


class _Host:
    source = "host clock"

    def time(self, work: Callable[[], Any]) -> tuple[float, Any]:
        start = time.perf_counter_ns()
        result = work()
        return (time.perf_counter_ns() - start) / 1e6, result


class _Events:
    """The device's own clock. The caches are being emptied while the host begins to launch."""

    source = "CUDA events" if torch.version.hip is None else "HIP events"

    def time(self, work: Callable[[], Any]) -> tuple[float, Any]:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        result = work()
        end.record()
        end.synchronize()
        return start.elapsed_time(end), result


def clock(device: str) -> _Host | _Events:
    """What times work on `device`: `time(work)` gives milliseconds and what `work` returned."""
    return _Host() if device == "cpu" else _Events()


@cache
def flusher(device: str) -> Callable[[], str]:
    """A function that waits for the device, empties its caches and says what it did."""
    if device == "cpu":
        size, said = caches.to_write()
        buffer = torch.zeros(size, dtype=torch.int8)
    else:
        # Long enough that the first launch is on its way before the clock starts.
        level2 = torch.cuda.get_device_properties(device).L2_cache_size
        size = max(4 * level2, 256 << 20)
        said = f"cold: {size >> 20} MiB written before, the L2 has {level2 >> 20}"
        buffer = torch.zeros(size, dtype=torch.int8, device=device)

    def flush() -> str:
        if device != "cpu":
            torch.cuda.synchronize(device)
        buffer.zero_()
        return said

    return flush


@contextmanager
def annotated(name: str, device: str) -> Iterator[None]:
    """A named range in a profiler's timeline, where there is one."""
    if device == "cpu":
        yield
        return
    torch.cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()


def captured(
    call: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor], state: dict[str, Any]
) -> Callable[[], torch.Tensor] | None:
    """A forward pass on these values as the replay of a CUDA graph; None where there are none."""
    if not inputs[0].is_cuda:
        return None
    if not state:
        state["inputs"] = [tensor.clone() for tensor in inputs]
        with torch.no_grad():
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):  # whatever is done only once must not be captured
                for _ in range(3):
                    call(*state["inputs"])
            torch.cuda.synchronize()
            state["graph"] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(state["graph"]):
                state["out"] = call(*state["inputs"])
    for static, tensor in zip(state["inputs"], inputs, strict=True):
        static.copy_(tensor)

    def replay() -> torch.Tensor:
        state["graph"].replay()
        return state["out"]

    return replay


def delay(device: str, wait_ms: float) -> Callable[[], None]:
    """Something to do that takes that long, on the device where there is one."""
    if device == "cpu":
        return partial(_spin, wait_ms)
    # How many cycles a millisecond has here: the clock is not the one of the data sheet.
    trial = 20_000_000
    torch.cuda._sleep(trial)
    elapsed_ms = sorted(_Events().time(lambda: torch.cuda._sleep(trial))[0] for _ in range(5))[2]
    return partial(torch.cuda._sleep, round(trial * wait_ms / elapsed_ms))


def _spin(wait_ms: float) -> None:
    until = time.perf_counter() + wait_ms / 1e3
    while time.perf_counter() < until:
        pass
