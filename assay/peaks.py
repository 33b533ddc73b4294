"""What this machine reaches at best, measured: copying, reading and multiplying.

A ceiling is the best of its samples. The samples and the operation that made them stay with it,
so "80 % of peak" always says 80 % of what. With torch absent, NumPy measures the CPU.
"""

import time
from collections.abc import Callable
from typing import Any

from assay.plugins import installed
from assay.records.schema import Measurement

_BYTES = {"cpu": 256 << 20, "cuda": 4 << 30}
_SIDE = {"cpu": 2048, "cuda": 8192}
_SAMPLES = {"cpu": 7, "cuda": 20}


UNITS = {"copy_bandwidth": "GB/s", "read_bandwidth": "GB/s", "matmul_rate": "TFLOP/s"}


def measure(device: str) -> list[Measurement]:
    """Copy bandwidth, read-only bandwidth and matmul rate of `device` (cpu or cuda:N)."""
    bench = _torch_bench(device) if installed("torch") else _numpy_bench()
    return [_peak(device, metric, unit, *bench[metric]) for metric, unit in UNITS.items()]


def unmeasured(device: str, reason: str) -> list[Measurement]:
    """The same ceilings as unknown, with the reason why."""
    return [
        Measurement(
            subject=device, metric=metric, value=None, unit=unit, status="failed", reason=reason
        )
        for metric, unit in UNITS.items()
    ]


# A timed operation: what it is, how much work it does in 1e9 bytes or 1e12 operations, and
# seconds of each of its samples.
Timed = tuple[str, float, list[float]]


def _peak(device: str, metric: str, unit: str, *timed: Timed) -> Measurement:
    """The fastest of several ways to do the same work."""
    source, work, seconds = min(timed, key=lambda one: min(one[2]) / one[1])
    rates = [work / elapsed for elapsed in seconds]
    return Measurement(
        subject=device,
        metric=metric,
        value=max(rates),
        unit=unit,
        samples=rates,
        source=f"best of {len(rates)}: {source}",
        level="kernel",
    )


def _torch_bench(device: str) -> dict[str, list[Timed]]:
    import torch

    kind = torch.device(device).type
    count, side, samples = _BYTES[kind] // 4, _SIDE[kind], _SAMPLES[kind]
    # Bits that are not all alike: some hardware is faster on zeros.
    source = torch.randn(count, device=device)
    target = torch.empty_like(source)
    factors = torch.randn(side, side, device=device, dtype=_matmul_dtype(kind))
    product = torch.empty_like(factors)
    synchronize = torch.cuda.synchronize if kind == "cuda" else _nothing

    def timed(what: str, work: float, call: Callable[[], Any]) -> Timed:
        return f"torch {torch.__version__} {what}", work, _seconds(call, synchronize, samples)

    size = f"{count * 4 >> 20} MiB of float32"
    read = count * 4 / 1e9
    return {
        "copy_bandwidth": [
            timed(f"copy_ of {size}, read plus written", 2 * read, lambda: target.copy_(source))
        ],
        "read_bandwidth": [
            timed(f"sum of {size}", read, source.sum),
            timed(f"amax of {size}", read, source.amax),
            timed(f"dot of {size} with itself", read, lambda: torch.dot(source, source)),
        ],
        "matmul_rate": [
            timed(
                f"matmul of {side}x{side} {str(factors.dtype).removeprefix('torch.')}",
                2 * side**3 / 1e12,
                lambda: torch.matmul(factors, factors, out=product),
            )
        ],
    }


def _matmul_dtype(kind: str) -> Any:
    import torch

    return torch.bfloat16 if kind == "cuda" else torch.float32


def _numpy_bench() -> dict[str, list[Timed]]:
    import numpy as np

    count, side, samples = _BYTES["cpu"] // 4, _SIDE["cpu"], _SAMPLES["cpu"]
    source = np.random.default_rng(0).standard_normal(count, dtype=np.float32)
    target = np.empty_like(source)
    factors = source[: side * side].reshape(side, side)

    def timed(what: str, work: float, call: Callable[[], Any]) -> Timed:
        return f"NumPy {np.__version__} {what}", work, _seconds(call, _nothing, samples)

    size = f"{count * 4 >> 20} MiB of float32"
    read = count * 4 / 1e9
    return {
        "copy_bandwidth": [
            timed(
                f"copyto of {size}, read plus written", 2 * read, lambda: np.copyto(target, source)
            )
        ],
        "read_bandwidth": [
            timed(f"max of {size}", read, source.max),
            timed(f"dot of {size} with itself", read, lambda: np.dot(source, source)),
        ],
        "matmul_rate": [
            timed(f"matmul of {side}x{side} float32", 2 * side**3 / 1e12, lambda: factors @ factors)
        ],
    }


def _seconds(call: Callable[[], Any], synchronize: Callable[[], Any], samples: int) -> list[float]:
    """Elapsed seconds of each call, after two unmeasured ones."""
    elapsed = []
    for _ in range(samples + 2):
        synchronize()
        start = time.perf_counter()
        call()
        synchronize()
        elapsed.append(time.perf_counter() - start)
    return elapsed[2:]


def _nothing() -> None:
    return None
