"""Which kernels a pass ran, by torch's profiler: how many, how long, and the longest by name."""

import time
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

from _model_cost.telling import value
from assay.instruments.operation import in_words
from assay.performance.profile import device as profiler
from assay.performance.profile import trace
from assay.records.schema import Measurement
from assay.subjects.outcome import Begin


def measurements(
    metric: str, calls: Mapping[str, Callable[[], Any]], *, budget_s: float
) -> Iterator[Begin | Measurement]:
    """Kernels of one call of each subject, for as long as the budget lasts; it may be 0."""
    begun = time.perf_counter()
    for subject, call in calls.items():
        if time.perf_counter() - begun < budget_s:
            yield Begin(subject, metric)
            yield from _of_one(metric, subject, call)


def _of_one(metric: str, subject: str, call: Callable[[], Any]) -> Iterator[Measurement]:
    """The number of kernels, and the time in which one is at work."""
    try:
        calls = profiler.profiled(call, calls=profiler.FEWEST)
    except (trace.Unclear, RuntimeError) as error:
        yield Measurement(
            metric=f"{metric}_kernels_ms",
            subject=subject,
            value=None,
            unit="ms",
            status="skipped",
            reason=f"the profiler does not say: {error}",
        )
        return
    busy = [trace.busy_ms(kernels) for kernels in calls]
    source = f"torch's profiler: sum of durations; {len(calls)} calls"
    yield value(f"{metric}_kernels_ms", subject, median(busy), "ms", source, busy)
    yield value(f"{metric}_kernels", subject, len(calls[-1]), "count", in_words(calls[-1]))
