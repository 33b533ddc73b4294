"""What this machine reaches at best, for a time to be predicted from: measured, or given."""

import time
from collections.abc import Iterator, Mapping

import torch

from _model_cost import passes
from _model_cost.work import Machine
from assay import peaks
from assay.records.schema import Measurement

_KERNELS = 200


def measured(device: str) -> tuple[Machine, list[Measurement]]:
    """Copying and multiplying by assay's own peaks, and what a kernel costs that does nothing."""
    found = peaks.measure(device)
    value = {one.metric: one.value for one in found}
    launch_us = _launch_us(device)
    found.append(
        Measurement(
            metric="launch_us",
            subject=device,
            value=launch_us,
            unit="us",
            source=f"{_KERNELS} dependent additions of one number"
            + ("" if device == "cpu" else ", replayed as a CUDA graph"),
            level="kernel",
        )
    )
    machine = Machine(
        flops_per_s=value["matmul_rate"] * 1e12,
        bytes_per_s=value["copy_bandwidth"] * 1e9,
        launch_s=launch_us / 1e6,
    )
    return machine, found


def given(told: Mapping[str, float]) -> Machine:
    return Machine(**told)


def _launch_us(device: str) -> float:
    one = torch.zeros(1, device=device)

    def many() -> torch.Tensor:
        for _ in range(_KERNELS):
            one.add_(1)
        return one

    call = many if device == "cpu" else passes.captured(many)
    return min(_times_s(call, device)) * 1e6 / _KERNELS


def _times_s(call: object, device: str) -> Iterator[float]:
    for _ in range(20):
        begun = time.perf_counter()
        call()
        if device != "cpu":
            torch.cuda.synchronize(device)
        yield time.perf_counter() - begun
