"""Instruments read known quantities back before their numbers count.

Each reading has its known quantity, drawn anew so that no earlier value passes for it: planted
delays for a clock, an array for memory, some products or kernels for a profiler. What is planted is
witnessed by other means: a second clock, the size of the array, the number of launches. An
instrument that misses its tolerance in every one of some tries is not believed; a busy machine may
disturb one of them.
"""

import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from statistics import median
from types import ModuleType

import numpy as np

from assay.instruments.operation import Operation, counted
from assay.instruments.reading import Reading
from assay.performance.memory import isolated
from assay.records.schema import CALIBRATION, Measurement

_TRIES = 3
_DRAW = random.SystemRandom()  # which no subject can seed
_PAIRS = 5  # of a short and a long delay
_KERNEL_MS = 2.0
_SIDE = 64  # of the matrices that are multiplied
_PRODUCT = re.compile(r"mm|dot|gemm|fusion|custom-call", re.IGNORECASE)
_NAMES = {"memory": "account of memory", "saved": "count of saved bytes"}
_GRANULE = 2 << 20  # bytes: torch hands out large arrays in whole blocks of it on a GPU
_PLANTED_KERNEL = "spin"  # in the name of the kernel that torch.cuda._sleep launches


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A known quantity and what the instrument made of it."""

    instrument: str
    known: float
    read: float | None
    unit: str
    tolerance: float  # share of what is known
    how: str
    reason: str | None = None  # why it read nothing, or the wrong thing

    @property
    def problem(self) -> str | None:
        """Reason not to believe the instrument; None where there is none."""
        name = _NAMES.get(self.instrument, self.instrument)
        if self.reason or self.read is None:
            return f"the {name} fails its calibration: {self.reason}"
        if abs(self.read - self.known) <= self.tolerance * self.known:
            return None
        return (
            f"the {name} fails its calibration: it reads {_figure(self.read)} "
            f"{self.unit} where there are {_figure(self.known)} ({self.how})"
        )

    @property
    def _within(self) -> str:
        return f"within {self.tolerance:.0%}" if self.tolerance else "exactly"

    def measurement(self, framework: str) -> Measurement:
        """As a record of the framework whose instrument it is."""
        problem = self.problem
        return Measurement(
            subject=framework,
            metric=f"{CALIBRATION}{self.instrument}",
            value=self.read if problem is None else None,
            unit=self.unit,
            status="ok" if problem is None else "refused",
            reason=problem,
            source=f"known: {_figure(self.known)} {self.unit} {self._within}; {self.how}",
        )


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def all_of(framework: ModuleType, device: str) -> Iterator[Calibration]:
    """Calibrate every instrument of a framework on a device."""
    for instrument in _INSTRUMENTS:
        yield calibrated(instrument, framework, device)


@cache
def calibrated(instrument: str, framework: ModuleType, device: str) -> Calibration:
    """The first of some tries that holds, or the last."""
    for _ in range(_TRIES):
        calibration = _INSTRUMENTS[instrument](framework, device)
        if calibration.problem is None:
            break
    return calibration


def problem(instruments: tuple[str, ...], framework: ModuleType, device: str) -> str | None:
    """Reason not to believe one of some instruments in this process; None where there is none."""
    for instrument in instruments:
        if instrument == "memory" and device == "cpu" and hasattr(framework, "counted_peak"):
            continue  # it is read in other processes, each of which reads a known array first
        if reason := calibrated(instrument, framework, device).problem:
            return reason
    return None


def clock(framework: ModuleType, device: str) -> Calibration:
    """Two planted delays; what they differ by is the same to a second clock, whatever both count
    around them."""
    short_ms = _DRAW.uniform(2.0, 4.0)
    long_ms = short_ms + _DRAW.uniform(8.0, 16.0)
    clock = framework.clock(device)
    witnessed: dict[float, list[float]] = {short_ms: [], long_ms: []}
    read: dict[float, list[float]] = {short_ms: [], long_ms: []}
    for wait_ms in (short_ms, long_ms) * _PAIRS:
        work = framework.delay(device, wait_ms)
        framework.synchronize(device)
        start = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        elapsed_ms, _ = clock.time(work)
        framework.synchronize(device)
        witnessed[wait_ms].append((time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - start) / 1e6)
        read[wait_ms].append(elapsed_ms)
    return Calibration(
        instrument="clock",
        known=min(witnessed[long_ms]) - min(witnessed[short_ms]),
        read=min(read[long_ms]) - min(read[short_ms]),
        unit="ms",
        tolerance=0.05,
        how=f"two planted delays by CLOCK_MONOTONIC_RAW; read: {clock.source}",
    )


def memory(framework: ModuleType, device: str) -> Calibration:
    """Arrays of two known sizes that a call returns; an account that repeats itself fails one."""
    for count in _DRAW.sample(range(8, 24), 2):
        calibration = _array(_GRANULE * count, framework, device)
        if calibration.problem:
            break
    return calibration


def _array(size: int, framework: ModuleType, device: str) -> Calibration:
    array = framework.place(np.ones((1, 1, 1, size // 4), np.float32), "float32", device)
    peak: Reading | None = framework.peak(lambda x: x * 2.0, (array,), device=device)
    if peak is None:  # then a process of its own reads it, and calibrates itself for each call
        peak = isolated.known_array(framework, size)
    return _read_back("memory", size, peak, "an array that a call returns")


def saved(framework: ModuleType, device: str) -> Calibration:
    """A product that is not an input, and which the derivative of its square needs."""
    size = 4 * _DRAW.randrange(1 << 18, 1 << 19)
    array = framework.place(np.ones((1, 1, 1, size // 4), np.float32), "float32", device)
    reading = framework.saved_bytes(lambda x: (x * 2.0) ** 2, (array,), {})
    return _read_back("saved", size, reading, "an array that a derivative needs")


def profiler(framework: ModuleType, device: str) -> Calibration:
    """Some matrix products on a CPU, some kernels of known length on a device; then others."""
    for count in _DRAW.sample(range(2, 6), 2):
        calibration = (
            _products(count, framework, device) if device == "cpu" else _kernels(count, device)
        )
        if calibration.problem:
            break
    return calibration


def _products(count: int, framework: ModuleType, device: str) -> Calibration:
    eye = framework.place(np.eye(_SIDE, dtype=np.float32)[None, None], "float32", device)

    def multiplied(matrix: object) -> object:
        result = matrix
        for _ in range(count):
            result = result @ matrix
        return result

    return _counted(count, counted(framework.operations(multiplied, (eye,))))


def _counted(count: int, ran: list[Operation]) -> Calibration:
    strange = [operation.name for operation in ran if not _PRODUCT.search(operation.name)]
    return Calibration(
        instrument="profiler",
        known=count,
        read=len(ran),
        unit="count",
        tolerance=0.0,
        how="matrix products in a call",
        reason=f"it names {strange[0]} where only matrices are multiplied" if strange else None,
    )


def _kernels(count: int, device: str) -> Calibration:
    """Planted kernels by number, name and time; the host's clock is the second witness."""
    from assay.frameworks.torch.timing import delay
    from assay.performance.profile import device as profiled_device
    from assay.performance.profile import trace

    kernel, witnessed = delay(device, _KERNEL_MS), []

    def planted() -> None:
        for _ in range(count):
            kernel()

    def timed() -> None:
        start = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        planted()
        profiled_device.torch.cuda.synchronize(device)
        witnessed.append((time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - start) / 1e6)

    how = f"{count} planted kernels in each of some calls, by CLOCK_MONOTONIC_RAW"
    about = {"instrument": "profiler", "unit": "ms", "tolerance": 0.05, "how": how}
    try:
        calls = profiled_device.profiled(timed)
    except trace.Unclear as error:
        return Calibration(known=count * _KERNEL_MS, read=None, reason=str(error), **about)
    wrong = [
        kernels
        for kernels in calls
        if len(kernels) != count or any(_PLANTED_KERNEL not in k.name for k in kernels)
    ]
    names = sorted({kernel.name for kernels in wrong for kernel in kernels})
    return Calibration(
        known=min(witnessed),
        read=median(map(trace.busy_ms, calls)) if all(calls) else None,
        reason=f"it saw {len(wrong[0])} of {count} planted kernels: {names}" if wrong else None,
        **about,
    )


def _read_back(instrument: str, size: int, reading: Reading, what: str) -> Calibration:
    return Calibration(
        instrument=instrument,
        known=size,
        read=reading.value,
        unit="B",
        tolerance=0.01,
        how=f"{what}; read: {reading.source}" if reading.source else what,
        reason=reading.reason,
    )


_INSTRUMENTS: dict[str, Callable[[ModuleType, str], Calibration]] = {
    "clock": clock,
    "memory": memory,
    "saved": saved,
    "profiler": profiler,
}
