"""Times of several subjects side by side: interleaved rounds whose order turns around each time."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from assay.frameworks.torch.timing import clock

Call = Callable[[], Any]
Samples = dict[str, list[float]]
FEWEST = 6  # rounds; with fewer, two subjects cannot be compared


def device_ms(
    calls: Mapping[str, Call], *, device: str, rounds: int, warmup: int, budget_s: float
) -> tuple[Samples, str]:
    """Milliseconds of each call in each round, and what took them."""
    clocks = {name: clock(device) for name in calls}
    for name, call in calls.items():
        for _ in range(warmup):
            clocks[name].time(call)
    source = next(iter(clocks.values())).source if clocks else ""
    return _interleaved(
        {name: partial(_timed, clocks[name], call) for name, call in calls.items()},
        rounds,
        budget_s,
        source,
    )


def host_ms(
    calls: Mapping[str, Call], *, device: str, rounds: int, warmup: int, budget_s: float
) -> tuple[Samples, str]:
    """The same by the host's clock, until the device is done: what a loop in Python waits for."""
    for call in calls.values():
        for _ in range(warmup):
            call()
    source = "host clock until the device is done"
    timed = {name: partial(_awaited, call, device) for name, call in calls.items()}
    return _interleaved(timed, rounds, budget_s, source)


def _interleaved(
    timed: Mapping[str, Callable[[], float]], rounds: int, budget_s: float, source: str
) -> tuple[Samples, str]:
    """One sample of each in every round; no further round once the budget is spent."""
    samples: Samples = {name: [] for name in timed}
    begun, made = time.perf_counter(), 0
    while made < rounds and (made < FEWEST or time.perf_counter() - begun < budget_s):
        for name in list(timed) if made % 2 == 0 else list(timed)[::-1]:
            samples[name].append(timed[name]())
        made += 1
    return samples, f"{source}; {made} interleaved rounds"


def _timed(clock: Any, call: Call) -> float:
    return clock.time(call)[0]


def _awaited(call: Call, device: str) -> float:
    _wait(device)
    begun = time.perf_counter_ns()
    call()
    _wait(device)
    return (time.perf_counter_ns() - begun) / 1e6


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize(device)
