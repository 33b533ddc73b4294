"""Samples of the sides of a comparison, in interleaved rounds."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from assay.performance.rounds import Turns
from assay.records.schema import Measurement, WorkloadIdentity


def interleaved(sides: Mapping[str, Callable[[], float]], *, rounds: int) -> dict[str, list[float]]:
    """Take one sample of each side per round.

    A side returns its own seconds, so that it can prepare and clear away off the clock.
    """
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for _, name in Turns(sides, rounds=rounds):
        samples[name].append(sides[name]())
    return samples


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Return the ratio of each round."""
    return [a / b for a, b in zip(numerators, denominators, strict=True)]


def measured(
    metric: str,
    samples: Sequence[float],
    *,
    unit: str,
    subject: str,
    source: str,
    workload: WorkloadIdentity,
) -> Measurement:
    """A measurement whose value is the median of its samples."""
    return Measurement(
        metric=metric,
        value=median(samples),
        unit=unit,
        subject=subject,
        samples=list(samples),
        source=source,
        workload=workload,
    )
