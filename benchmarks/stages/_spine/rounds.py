"""Rounds in which the sides of a comparison take turns, so that a disturbance hits them alike."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from assay.records.schema import Measurement, WorkloadIdentity


def interleaved(sides: Mapping[str, Callable[[], float]], *, rounds: int) -> dict[str, list[float]]:
    """One sample of each side per round, in an order that every other round reverses.

    A side returns its own seconds, so that it can prepare and clear away off the clock.
    """
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in reversed(sides) if number % 2 else sides:
            samples[name].append(sides[name]())
    return samples


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """The ratio of each round."""
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
