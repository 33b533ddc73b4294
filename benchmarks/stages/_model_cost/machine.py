"""Ceilings of this machine, measured or given, from which a time is predicted."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from assay import peaks
from assay.frameworks.torch import timing
from assay.frameworks.torch.counting import CountedOperator
from assay.records.schema import Measurement

_ADDITIONS = 200
_REPEATS = 20


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The best rates of a device; `launch_s` is the time of a kernel that does nothing."""

    flops_per_s: float
    bytes_per_s: float
    launch_s: float

    def seconds(self, work: Iterable[CountedOperator], *, launches: bool = False) -> float:
        """Least time of the operators one after the other, each bound by its arithmetic or its
        bytes; with `launches`, each is launched too."""
        return sum(
            max(operator.flops / self.flops_per_s, operator.bytes / self.bytes_per_s)
            + (self.launch_s if launches else 0.0)
            for operator in work
        )


def measured(device: str) -> tuple[Machine, list[Measurement]]:
    """Measure copies and products (assay/peaks.py) and the launch of an empty kernel."""
    measurements = peaks.measure(device)
    values = {measurement.metric: measurement.value for measurement in measurements}
    launch_us = _launch_us(device)
    measurements.append(
        Measurement(
            metric="launch_us",
            subject=device,
            value=launch_us,
            unit="us",
            source=f"{_ADDITIONS} dependent additions of one number"
            + ("" if device == "cpu" else ", replayed as a CUDA graph"),
            level="kernel",
        )
    )
    machine = Machine(
        flops_per_s=values["matmul_rate"] * 1e12,
        bytes_per_s=values["copy_bandwidth"] * 1e9,
        launch_s=launch_us / 1e6,
    )
    return machine, measurements


def _launch_us(device: str) -> float:
    def add(number: torch.Tensor) -> torch.Tensor:
        for _ in range(_ADDITIONS):
            number.add_(1)
        return number

    number, clock = torch.zeros(1, device=device), timing.clock(device)
    call = (lambda: add(number)) if device == "cpu" else timing.captured(add, [number], {})
    return min(clock.time(call)[0] for _ in range(_REPEATS)) * 1e3 / _ADDITIONS
