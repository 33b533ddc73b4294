"""Measured ceilings of a device: bandwidth of copying and reading, rate of matrix products.

A ceiling is the best of its samples. The samples and the operation that made them stay with it,
so "80 % of peak" always says 80 % of what. Without torch, NumPy measures the CPU.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assay.plugins import installed
from assay.records.schema import Measurement

UNITS = {"copy_bandwidth": "GB/s", "read_bandwidth": "GB/s", "matmul_rate": "TFLOP/s"}

_BYTES = {"cpu": 256 << 20, "cuda": 4 << 30}
_SIDE = {"cpu": 2048, "cuda": 8192}
_SAMPLES = {"cpu": 7, "cuda": 20}
_WARM_UP = 2  # calls that are not measured


@dataclass(frozen=True, kw_only=True)
class _Operations:
    """Calls that do a metric's work in different ways, by name; the fastest counts."""

    library: str
    copy: Mapping[str, Callable[[], Any]]
    read: Mapping[str, Callable[[], Any]]
    matmul: Mapping[str, Callable[[], Any]]
    matmul_dtype: str = "float32"
    synchronize: Callable[[], Any] = lambda: None


def measure(device: str) -> list[Measurement]:
    """Copy bandwidth, read-only bandwidth and matmul rate of `device` (cpu or cuda:N)."""
    kind = device.partition(":")[0]
    size, side = _BYTES[kind], _SIDE[kind]
    operations = _torch(device, size, side) if installed("torch") else _numpy(size, side)
    array = f"{size >> 20} MiB of float32"
    factors = f"{side}x{side} {operations.matmul_dtype}"
    gigabytes, teraflops = size / 1e9, 2 * side**3 / 1e12
    calls = {
        "copy_bandwidth": (operations.copy, 2 * gigabytes, f"{array}, read plus written"),
        "read_bandwidth": (operations.read, gigabytes, array),
        "matmul_rate": (operations.matmul, teraflops, factors),
    }
    measurements = []
    for metric, (ways, work, operand) in calls.items():
        seconds = {way: _seconds(call, operations, _SAMPLES[kind]) for way, call in ways.items()}
        fastest = min(seconds, key=lambda way: min(seconds[way]))
        rates = [work / elapsed for elapsed in seconds[fastest]]
        measurements.append(
            Measurement(
                subject=device,
                metric=metric,
                value=max(rates),
                unit=UNITS[metric],
                samples=rates,
                source=f"best of {len(rates)}: {operations.library} {fastest} of {operand}",
                level="kernel",
            )
        )
    return measurements


def unmeasured(device: str, reason: str) -> list[Measurement]:
    """The same ceilings as unknown, with the reason."""
    return [
        Measurement(
            subject=device, metric=metric, value=None, unit=unit, status="failed", reason=reason
        )
        for metric, unit in UNITS.items()
    ]


def _torch(device: str, size: int, side: int) -> _Operations:
    import torch

    on_gpu = torch.device(device).type == "cuda"
    # Bits that are not all alike: some hardware is faster on zeros.
    source = torch.randn(size // 4, device=device)
    target = torch.empty_like(source)
    dtype = torch.bfloat16 if on_gpu else torch.float32
    factors = torch.randn(side, side, device=device, dtype=dtype)
    product = torch.empty_like(factors)
    return _Operations(
        library=f"torch {torch.__version__}",
        copy={"copy_": lambda: target.copy_(source)},
        read={"sum": source.sum, "amax": source.amax, "dot": lambda: torch.dot(source, source)},
        matmul={"matmul": lambda: torch.matmul(factors, factors, out=product)},
        matmul_dtype=str(dtype).removeprefix("torch."),
        synchronize=torch.cuda.synchronize if on_gpu else lambda: None,
    )


def _numpy(size: int, side: int) -> _Operations:
    import numpy as np

    source = np.random.default_rng(0).standard_normal(size // 4, dtype=np.float32)
    target = np.empty_like(source)
    factors = source[: side * side].reshape(side, side)
    return _Operations(
        library=f"NumPy {np.__version__}",
        copy={"copyto": lambda: np.copyto(target, source)},
        read={"max": source.max, "dot": lambda: np.dot(source, source)},
        matmul={"matmul": lambda: factors @ factors},
    )


def _seconds(call: Callable[[], Any], operations: _Operations, samples: int) -> list[float]:
    """Elapsed seconds of each call after the warm-up."""
    elapsed = []
    for _ in range(samples + _WARM_UP):
        operations.synchronize()
        start = time.perf_counter()
        call()
        operations.synchronize()
        elapsed.append(time.perf_counter() - start)
    return elapsed[_WARM_UP:]
