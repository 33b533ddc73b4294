"""PyTorch: the host clock on the CPU, events on a CUDA (or ROCm) device."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from time import perf_counter, perf_counter_ns
from typing import Any

import torch

from assay.instruments import caches

_Event, _sleep = torch.cuda.Event, torch.cuda._sleep  # bound before any code of a user's is loaded


class _HostClock:
    source = "host clock"
    launch_ms = None  # the call itself does the work

    def time(self, work: Callable[[], Any]) -> tuple[float, Any]:
        start = perf_counter_ns()
        result = work()
        return (perf_counter_ns() - start) / 1e6, result


class _EventClock:
    """The device's own clock. The device is kept busy while the host launches, so that a late
    launch is not taken for work; the time of the launches is kept apart.

    Launches that take longer than _MOST_HIDDEN_MS are not hidden: they are what such a call costs.
    """

    source = f"{'CUDA' if torch.version.hip is None else 'HIP'} events, launches hidden"

    def __init__(self, device: str) -> None:
        self._cycles_per_ms = _cycles_per_ms(device)
        self._longest_ms = _SHORTEST_HIDDEN_MS
        self.launch_ms: float | None = None

    def time(self, work: Callable[[], Any]) -> tuple[float, Any]:
        start, end = (_Event(enable_timing=True) for _ in range(2))
        hidden_ms = min(_HEADROOM * self._longest_ms, _MOST_HIDDEN_MS)
        _sleep(round(hidden_ms * self._cycles_per_ms))
        start.record()
        launched = perf_counter_ns()
        result = work()
        self.launch_ms = (perf_counter_ns() - launched) / 1e6
        end.record()
        end.synchronize()
        # The first calls may compile; what they took says nothing of the next.
        self._longest_ms = max(_SHORTEST_HIDDEN_MS, min(2 * self._longest_ms, self.launch_ms))
        return start.elapsed_time(end), result


_SHORTEST_HIDDEN_MS = 0.1
_MOST_HIDDEN_MS = 3.0
_HEADROOM = 2.0  # a launch may take longer than the one before


@cache
def _cycles_per_ms(device: str) -> float:
    """Number of cycles in a millisecond here: the clock is not the one of the data sheet."""
    trial, elapsed = 20_000_000, []
    for _ in range(5):
        start, end = (_Event(enable_timing=True) for _ in range(2))
        start.record()
        _sleep(trial)
        end.record()
        end.synchronize()
        elapsed.append(start.elapsed_time(end))
    return trial / sorted(elapsed)[2]


def clock(device: str) -> _HostClock | _EventClock:
    """Return a clock of `device`: its `time(work)` returns milliseconds and the result."""
    return _HostClock() if device == "cpu" else _EventClock(device)


@cache
def flusher(device: str) -> Callable[[], str]:
    """A function that waits for the device, empties its caches and says what it did."""
    if device == "cpu":
        size, state = caches.to_write()
        buffer = torch.zeros(size, dtype=torch.int8, device=device)
    else:
        level2 = torch.cuda.get_device_properties(device).L2_cache_size
        size = max(4 * level2, 256 << 20)
        state = f"cold: {size >> 20} MiB written before, the L2 has {level2 >> 20}"
        buffer = torch.zeros(size, dtype=torch.int8, device=device)

    def flush() -> str:
        if device != "cpu":
            torch.cuda.synchronize(device)
        buffer.zero_()
        return state

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
) -> Callable[[], torch.Tensor]:
    """Return a call on these values as the replay of a CUDA graph."""
    if not state:
        state["inputs"] = [tensor.clone() for tensor in inputs]
        with torch.no_grad():
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())  # the inputs are still being written
            with torch.cuda.stream(side):  # whatever is done only once must not be captured
                for _ in range(3):
                    call(*state["inputs"])
            torch.cuda.synchronize()
            state["graph"] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(state["graph"], pool=_graph_pool(str(inputs[0].device))[1]):
                state["out"] = call(*state["inputs"])
    for static, tensor in zip(state["inputs"], inputs, strict=True):
        static.copy_(tensor)

    def replay() -> torch.Tensor:
        state["graph"].replay()
        return state["out"]

    return replay


@cache
def _graph_pool(device: str) -> tuple[torch.cuda.CUDAGraph, Any]:
    """Memory that all graphs of a process share, for they are replayed one after the other, and
    twenty of whole models would not fit side by side. The graph keeps it alive."""
    graph, number = torch.cuda.CUDAGraph(), torch.zeros(1, device=device)
    with torch.cuda.graph(graph):
        number.add_(1)
    return graph, graph.pool()


def delay(device: str, wait_ms: float) -> Callable[[], None]:
    """Something to do that takes that long, on the device where there is one."""
    if device == "cpu":
        return partial(_spin, wait_ms)
    return partial(_sleep, round(wait_ms * _cycles_per_ms(device)))


def _spin(wait_ms: float) -> None:
    until = perf_counter() + wait_ms / 1e3
    while perf_counter() < until:
        pass
