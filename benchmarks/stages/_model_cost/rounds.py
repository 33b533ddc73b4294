"""Times of several subjects side by side: interleaved rounds whose order turns around each time."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from assay.bench.clocks.torch import clock

Call = Callable[[], Any]


def device_ms(
    calls: Mapping[str, Call], *, device: str, rounds: int, warmup: int
) -> tuple[dict[str, list[float]], str]:
    """Milliseconds of each call in each round, and what took them."""
    clocks = {name: clock(device) for name in calls}
    for name, call in calls.items():
        for _ in range(warmup):
            clocks[name].time(call)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name in turned(list(calls), number):
            samples[name].append(clocks[name].time(calls[name])[0])
    source = next(iter(clocks.values())).source if clocks else ""
    return samples, f"{source}; {rounds} interleaved rounds"


def host_ms(
    calls: Mapping[str, Call], *, device: str, rounds: int, warmup: int
) -> tuple[dict[str, list[float]], str]:
    """The same by the host's clock, until the device is done: what a loop in Python waits for."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(warmup + rounds):
        for name in turned(list(calls), number):
            _wait(device)
            begun = time.perf_counter_ns()
            calls[name]()
            _wait(device)
            samples[name].append((time.perf_counter_ns() - begun) / 1e6)
    kept = {name: values[warmup:] for name, values in samples.items()}
    return kept, f"host clock until the device is done; {rounds} interleaved rounds"


def turned(names: list[str], number: int) -> list[str]:
    return names if number % 2 == 0 else names[::-1]


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize(device)
