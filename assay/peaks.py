"""Measured ceilings of a device: bandwidth of copying and reading, rate of matrix products.

A ceiling is the best of its samples. The samples and the operation that made them stay with it,
so "80 % of peak" always says 80 % of what. Products of a CPU are of two sizes: beside six busy
processes few of 0.2 s have two cores for themselves, and one in a hundred of 4 ms has. Reading is
measured on small arrays too, which lie in a cache after the first time. Before any of it counts, a
planted delay must read back as the rate it stands for. Without torch, NumPy measures the CPU.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from assay.plugins import installed
from assay.records.schema import CACHED_BANDWIDTH, Measurement, Status

UNITS = {"copy_bandwidth": "GB/s", "read_bandwidth": "GB/s", "matmul_rate": "TFLOP/s"}
_CACHED_KIB = {"cpu": (64, 1024, 16384), "cuda": (4096, 32768)}
_REREAD_BYTES = {"cpu": 64 << 20, "cuda": 1 << 30}

_BYTES = {"cpu": 256 << 20, "cuda": 4 << 30}
_REPEATED = 16  # times the same numbers in an array: to draw them all takes 1.5 s on a CPU
_PRODUCTS = {"cpu": {2048: 7, 512: 250}, "cuda": {8192: 20}}  # sides of factors, and samples
_SAMPLES = {"cpu": 7, "cuda": 20}
_WARM_UP = 2  # calls that are not measured
_PLANTED = 3  # delays
_PLANTED_CYCLES = 10_000_000  # of a GPU, 5 ms or more
_TOLERANCE = 0.05


class _Way(NamedTuple):
    """A call that does some of a metric's work; the fastest of several counts."""

    name: str
    call: Callable[[], Any]
    work: float  # GB or TFLOP
    operand: str
    samples: int


@dataclass(frozen=True, kw_only=True)
class _Operations:
    """Calls for each metric, by name."""

    library: str
    copy: Mapping[str, Callable[[], Any]]
    read: Mapping[str, Callable[[], Any]]
    matmul: Callable[[int], Any]  # of factors with so many rows and columns
    reread: Callable[[int, int], Any]  # the first so many bytes, so many times
    delay: Callable[[], Any]  # takes a few milliseconds
    matmul_dtype: str = "float32"
    synchronize: Callable[[], Any] = lambda: None


def measure(device: str) -> list[Measurement]:
    """Copy bandwidth, read-only bandwidth and matmul rate of `device` (cpu or cuda:N)."""
    kind = device.partition(":")[0]
    size, sides = _BYTES[kind], tuple(_PRODUCTS[kind])
    operations = _torch(device, size, sides) if installed("torch") else _numpy(size, sides)
    array, samples = f"{size >> 20} MiB of float32", _SAMPLES[kind]
    ways = {
        "copy_bandwidth": [
            _Way(name, call, 2e-9 * size, f"{array}, read plus written", samples)
            for name, call in operations.copy.items()
        ],
        "read_bandwidth": [
            _Way(name, call, 1e-9 * size, array, samples) for name, call in operations.read.items()
        ],
        "matmul_rate": _products(operations, kind),
        **_cached(operations, kind),
    }
    calibration = _calibration(device, operations)
    if calibration.value is None:
        return [calibration, *unmeasured(device, calibration.reason or "", status="refused")]
    measurements = [calibration]
    for metric, different in ways.items():
        rates_of = {way: _rates(way, operations) for way in different}
        fastest = max(rates_of, key=lambda way: max(rates_of[way]))
        rates = rates_of[fastest]
        measurements.append(
            Measurement(
                subject=device,
                metric=metric,
                value=max(rates),
                unit=UNITS.get(metric, "GB/s"),
                samples=rates,
                source=f"best of {len(rates)}: {operations.library} {fastest.name} of "
                f"{fastest.operand}",
                level="kernel",
            )
        )
    return measurements


def matmul_rate(device: str) -> float:
    """TFLOP/s of large products, the best of some: what a run's own rate is held against as it
    goes. The stage host measures and records it with care."""
    kind = device.partition(":")[0]
    operations = _torch(device, 4 * _REPEATED, tuple(_PRODUCTS[kind]))
    return max(max(_rates(way, operations)) for way in _products(operations, kind))


def _products(operations: _Operations, kind: str) -> list[_Way]:
    return [
        _Way("matmul", partial(operations.matmul, side), 2e-12 * side**3,
             f"{side}x{side} {operations.matmul_dtype}", samples)
        for side, samples in _PRODUCTS[kind].items()
    ]  # fmt: skip


def _cached(operations: _Operations, kind: str) -> dict[str, list[_Way]]:
    """Calls that read small arrays many times."""
    ways = {}
    for kib in _CACHED_KIB[kind]:
        times = _REREAD_BYTES[kind] // (kib << 10)
        call = partial(operations.reread, kib << 10, times)
        operand = f"{kib} KiB, {times} times"
        ways[f"{CACHED_BANDWIDTH}{kib}"] = [
            _Way("sum", call, times * (kib << 10) / 1e9, operand, _SAMPLES[kind])
        ]
    return ways


def _calibration(device: str, operations: _Operations) -> Measurement:
    """A delay as long as a second clock says, read as the rate at which a gigabyte would move."""
    witnessed: list[int] = []

    def planted() -> None:
        start = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        operations.delay()
        operations.synchronize()
        witnessed.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - start)

    read = 1.0 / min(_seconds(planted, operations, _PLANTED))
    known = 1e9 / min(witnessed[_WARM_UP:])
    holds = abs(read - known) <= _TOLERANCE * known
    reason = (
        f"the bandwidth fails its calibration: a gigabyte within a planted delay is {known:.4g} "
        f"GB/s by CLOCK_MONOTONIC_RAW, and reads as {read:.4g}"
    )
    return Measurement(
        subject=device,
        metric="calibration.bandwidth",
        value=read if holds else None,
        unit="GB/s",
        status="ok" if holds else "refused",
        reason=None if holds else reason,
        source=f"known: {known:.4g} GB/s within {_TOLERANCE:.0%}; a planted delay by "
        "CLOCK_MONOTONIC_RAW",
    )


def unmeasured(device: str, reason: str, status: Status = "failed") -> list[Measurement]:
    """The same ceilings as unknown, with the reason."""
    return [
        Measurement(
            subject=device, metric=metric, value=None, unit=unit, status=status, reason=reason
        )
        for metric, unit in UNITS.items()
    ]


def _torch(device: str, size: int, sides: tuple[int, ...]) -> _Operations:
    import torch

    on_gpu = torch.device(device).type == "cuda"
    # Bits that are not all alike: some hardware is faster on zeros.
    source = torch.randn(size // 4 // _REPEATED, device=device).repeat(_REPEATED)
    target = torch.empty_like(source)
    dtype = torch.bfloat16 if on_gpu else torch.float32
    factors = {side: torch.randn(side, side, device=device, dtype=dtype) for side in sides}
    products = {side: torch.empty_like(factor) for side, factor in factors.items()}
    return _Operations(
        library=f"torch {torch.__version__}",
        copy={"copy_": lambda: target.copy_(source)},
        read={"sum": source.sum, "amax": source.amax, "dot": lambda: torch.dot(source, source)},
        reread=lambda size, times: source[: size // 4].expand(times, size // 4).sum(),
        delay=partial(torch.cuda._sleep, _PLANTED_CYCLES) if on_gpu else _wait,
        matmul=lambda side: torch.matmul(factors[side], factors[side], out=products[side]),
        matmul_dtype=str(dtype).removeprefix("torch."),
        synchronize=torch.cuda.synchronize if on_gpu else lambda: None,
    )


def _numpy(size: int, sides: tuple[int, ...]) -> _Operations:
    import numpy as np

    drawn = np.random.default_rng(0).standard_normal(size // 4 // _REPEATED, dtype=np.float32)
    source = np.tile(drawn, _REPEATED)
    target = np.empty_like(source)
    factors = {side: source[: side * side].reshape(side, side) for side in sides}
    return _Operations(
        library=f"NumPy {np.__version__}",
        copy={"copyto": lambda: np.copyto(target, source)},
        read={"max": source.max, "dot": lambda: np.dot(source, source)},
        reread=lambda size, times: [source[: size // 4].max() for _ in range(times)],
        delay=_wait,
        matmul=lambda side: factors[side] @ factors[side],
    )


def _wait() -> None:
    time.sleep(0.005)


def _rates(way: _Way, operations: _Operations) -> list[float]:
    """GB/s or TFLOP/s of each sample."""
    return [way.work / elapsed for elapsed in _seconds(way.call, operations, way.samples)]


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
