"""Use of the GPUs of a run: means over time, idle phases apart, and how evenly they were loaded.

Each sample stands for half of the time to its neighbours. A pause of many intervals, in which
nothing was sampled, is nobody's time: it is counted apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median, pstdev

from assay.trackers.gpu_readings import QUANTITIES, GpuReading, gpu_readings
from assay.trackers.run import TrackerRun

IDLE_PERCENT = 5.0  # of the time with a kernel, below which a sample is of an idle GPU
_PAUSE = 5.0  # usual intervals: beyond them, nothing was sampled


@dataclass(frozen=True, kw_only=True)
class GpuUse:
    """One GPU between its idle phases; a quantity that was not sampled is absent."""

    gpu: str
    samples: int
    seconds: float  # from the first sample to the last that was not idle
    idle_before_s: float | None  # None where nothing says whether a kernel ran
    idle_after_s: float | None
    unsampled_s: float  # pauses within `seconds`
    means: dict[str, float]
    most: dict[str, float]

    @property
    def is_idle(self) -> bool:
        """True where no sample saw a kernel."""
        return self.samples > 0 and self.most.get("busy", 100.0) < IDLE_PERCENT


@dataclass(frozen=True, kw_only=True)
class RunGpuUse:
    """All GPUs of a run, over one span of time where their load is compared."""

    gpus: tuple[GpuUse, ...]
    balance: dict[str, float]  # coefficient of variation over the GPUs in %, by quantity
    untimed: int  # samples without a time, which are left out


def gpu_use(run: TrackerRun) -> RunGpuUse:
    """Read the use of each GPU; no GPUs where the run has no readings of any."""
    readings, untimed = gpu_readings(run)
    return RunGpuUse(
        gpus=tuple(_use(gpu, samples) for gpu, samples in readings.items()),
        balance=_balance(list(readings.values())),
        untimed=untimed,
    )


def time_weighted(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The mean of (time, value) in their order, and the seconds in which nothing was sampled."""
    if len({moment for moment, _ in samples}) < 2:
        return fmean(value for _, value in samples), 0.0
    gaps = [b - a for (a, _), (b, _) in pairwise(samples)]
    usual = median(gap for gap in gaps if gap > 0)
    weighed = paused = total = 0.0
    for (_, first), (_, second), gap in zip(samples, samples[1:], gaps, strict=False):
        if gap > _PAUSE * usual:
            paused += gap
        else:
            weighed += gap * (first + second) / 2
            total += gap
    return weighed / total, paused


def _use(gpu: str, samples: list[GpuReading]) -> GpuUse:
    active = _active(samples)
    means, most, unsampled = {}, {}, 0.0
    for quantity in QUANTITIES:
        series = [(r.time, r.values[quantity]) for r in active if quantity in r.values]
        if series:
            means[quantity], paused = time_weighted(series)
            most[quantity] = max(value for _, value in series)
            unsampled = max(unsampled, paused)
    if "of_limit" not in means and {"power", "limit"} <= means.keys():
        means["of_limit"] = 100 * means["power"] / means["limit"]
    says_idle = any("busy" in reading.values for reading in samples)
    return GpuUse(
        gpu=gpu,
        samples=len(samples),
        seconds=active[-1].time - active[0].time,
        idle_before_s=active[0].time - samples[0].time if says_idle else None,
        idle_after_s=samples[-1].time - active[-1].time if says_idle else None,
        unsampled_s=unsampled,
        means=means,
        most=most,
    )


def _active(samples: list[GpuReading]) -> list[GpuReading]:
    """The samples from the first to the last with work; all of them where none has."""
    working = [i for i, r in enumerate(samples) if r.values.get("busy", 100.0) >= IDLE_PERCENT]
    return samples[working[0] : working[-1] + 1] if working else samples


def _balance(readings: list[list[GpuReading]]) -> dict[str, float]:
    """Spread of the GPUs' means over one span, that in which any of them worked: a GPU that began
    late has had less to do."""
    if len(readings) < 2:
        return {}
    spans = [_active(samples) for samples in readings]
    start, end = min(s[0].time for s in spans), max(s[-1].time for s in spans)
    spread = {}
    for quantity in ("busy", "power", "held"):
        means = []
        for samples in readings:
            series = [
                (r.time, r.values[quantity])
                for r in samples
                if quantity in r.values and start <= r.time <= end
            ]
            means += [time_weighted(series)[0]] if series else []
        if len(means) == len(readings) and fmean(means) > 0:
            spread[quantity] = 100 * pstdev(means) / fmean(means)
    return spread
