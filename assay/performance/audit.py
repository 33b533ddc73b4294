"""Invariants of what is believed: numbers that cannot all be true are not recorded as such.

An audit has the measurements of one cell and the ceilings that were measured on its machine.
Calibration (calibration.py) asks each instrument by itself; here one number is held against
another. A violation takes the value away and names what it broke:

- equal samples: a clock that repeats itself reads nothing;
- training before forward: both passes take at least as long as one of them;
- faster than memory: the bytes that a call must move, over the bandwidth of the level of memory
  that they fit into;
- faster than arithmetic: its operations, over the rate of matrix products.

Peaks below what a call returns or saves (probes/memory.py) and clocks that stop before their
kernels (admission.py) are refused where they are measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from assay.laws.pairs import PAIRED_METRICS
from assay.laws.rates import DIRECTIONS, MATMUL, MATMUL_DTYPES, READ
from assay.records.schema import CACHED_BANDWIDTH, Measurement
from assay.records.verdicts import NOT_BELIEVED

FORWARD, _, TRAINING = PAIRED_METRICS
_FEWEST_SAMPLES = 5
_FEW_DISTINCT = 0.25  # of the samples
# Above it the steps of every clock (0.5 us or less) are far below what calls differ by.
_LONG_MS = 0.1
# How far above a ceiling is still believed. What is read from a cache depends on how it is read.
_MEMORY_MARGIN, _CACHE_MARGIN, _COMPUTE_MARGIN = 1.25, 2.0, 1.25
_FAR_LARGER = 8
_NOT_COUNTED = "device_ms"  # the profiler's own time, on which nothing else is built


@dataclass(frozen=True, kw_only=True)
class Violation:
    """An invariant that a measurement breaks; `by_ceiling` where a ceiling that was measured too
    low would explain it."""

    invariant: str
    reason: str
    by_ceiling: bool = False


Key = tuple[str, str]  # subject and metric


def violations(
    measurements: Sequence[Measurement], ceilings: Sequence[Measurement]
) -> dict[Key, Violation]:
    """Invariants that the timed measurements of a cell break, by subject and metric."""
    measured = {(m.subject, m.metric): m for m in measurements if m.value is not None}
    broken: dict[Key, Violation] = {}
    for key, measurement in measured.items():
        if measurement.metric not in DIRECTIONS or measurement.metric == _NOT_COUNTED:
            continue
        violation = _repeated(measurement) or _too_fast(measurement, measured, ceilings)
        if violation:
            broken[key] = violation
    # A time that is not believed says nothing about another.
    believed = {key: measurement for key, measurement in measured.items() if key not in broken}
    for subject in {subject for subject, _ in believed}:
        if violation := _before_forward(subject, believed):
            broken |= {(subject, FORWARD): violation, (subject, TRAINING): violation}
    return broken


def refused(
    measurements: Sequence[Measurement], broken: Mapping[Key, Violation]
) -> list[Measurement]:
    """The measurements, those that break something without their values, and what the same clock
    read beside them: the first call, the warm-up, the launches."""
    pairs = [(m, broken.get((m.subject, m.metric.partition(".")[0]))) for m in measurements]
    return [_refused(m, violation) if violation else m for m, violation in pairs]


def _refused(measurement: Measurement, violation: Violation) -> Measurement:
    reason = f"{NOT_BELIEVED} ({violation.invariant}): {violation.reason}"
    return msgspec.structs.replace(
        measurement, value=None, samples=[], status="refused", reason=reason
    )


def _repeated(measurement: Measurement) -> Violation | None:
    samples = measurement.samples
    distinct = len(set(samples))
    long_enough = (measurement.value or 0.0) >= _LONG_MS
    if len(samples) < _FEWEST_SAMPLES or distinct > (len(samples) * _FEW_DISTINCT):
        return None
    if distinct > 1 and not long_enough:  # the steps of the clock show
        return None
    reason = f"{len(samples)} samples have {distinct} different values around {samples[0]:.6g} ms"
    return Violation(invariant="equal samples", reason=reason)


def _before_forward(subject: str, measured: Mapping[Key, Measurement]) -> Violation | None:
    forward, training = (measured.get((subject, metric)) for metric in (FORWARD, TRAINING))
    if forward is None or training is None:
        return None
    alone, both = forward.samples, training.samples
    # They are timed one after the other: what else runs may slow all of a few samples down.
    if min(len(alone), len(both)) < _FEWEST_SAMPLES or max(both) >= min(alone):
        return None
    reason = (
        f"forward and backward took {min(both):.4g} to {max(both):.4g} ms, forward alone "
        f"{min(alone):.4g} to {max(alone):.4g}"
    )
    return Violation(invariant="training before forward", reason=reason)


def _too_fast(
    measurement: Measurement,
    measured: Mapping[Key, Measurement],
    ceilings: Sequence[Measurement],
) -> Violation | None:
    seconds = (measurement.value or 0.0) / 1e3
    work = {}
    for quantity in ("bytes", "flops"):
        amounts = [
            measured.get((measurement.subject, f"{direction}_{quantity}"))
            for direction in DIRECTIONS[measurement.metric]
        ]
        work[quantity] = sum(a.value or 0.0 for a in amounts if a) if all(amounts) else None
    if work["bytes"] and (level := _bandwidth(work["bytes"], ceilings)):
        source, rate, margin = level
        least_s = work["bytes"] / rate
        if seconds * margin < least_s:
            return Violation(
                invariant="faster than memory",
                reason=f"{seconds * 1e3:.4g} ms for {work['bytes']:,.0f} B, which take "
                f"{least_s * 1e3:.4g} ms at the {rate / 1e9:.4g} GB/s of {source}",
                by_ceiling=True,
            )
    dtype = measurement.workload.spec.get("dtype") if measurement.workload else None
    peak = _matmul(str(dtype), ceilings)
    if work["flops"] and peak and seconds * _COMPUTE_MARGIN < work["flops"] / peak:
        return Violation(
            invariant="faster than arithmetic",
            reason=f"{seconds * 1e3:.4g} ms for {work['flops']:,.0f} operations, which take "
            f"{work['flops'] / peak * 1e3:.4g} ms at the {peak / 1e12:.4g} TFLOP/s of {MATMUL}",
            by_ceiling=True,
        )
    return None


def _bandwidth(size: float, ceilings: Sequence[Measurement]) -> tuple[str, float, float] | None:
    """The fastest level of memory that so many bytes fit into: its name, bytes per second, and how
    far above it is believed. What is smaller than all that was read is not judged."""
    memory, levels = None, {}
    for ceiling in sorted(ceilings, key=lambda ceiling: ceiling.value or 0.0):  # the best counts
        rate = (ceiling.metric, (ceiling.value or 0.0) * 1e9)
        if ceiling.metric == READ:
            memory = rate
        elif ceiling.metric.startswith(CACHED_BANDWIDTH):
            levels[int(ceiling.metric.removeprefix(CACHED_BANDWIDTH)) << 10] = rate
    if memory is None or not memory[1] or not levels or size < min(levels):
        return None
    if size >= _FAR_LARGER * max(levels):
        return *memory, _MEMORY_MARGIN
    # An array between two sizes may lie in the faster level in part.
    below = max(known for known in levels if known <= size)
    fitting = [memory, *(rate for known, rate in levels.items() if known >= below)]
    return *max(fitting, key=lambda rate: rate[1]), _CACHE_MARGIN


def _matmul(dtype: str, ceilings: Sequence[Measurement]) -> float | None:
    """Operations per second of matrix products in a dtype that the ceiling holds for."""
    rates = [
        ceiling.value * 1e12
        for ceiling in ceilings
        if ceiling.metric == MATMUL
        and ceiling.value
        and dtype in MATMUL_DTYPES.get(ceiling.subject.partition(":")[0], ())
    ]
    return max(rates, default=None)
