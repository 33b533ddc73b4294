"""A measured peak taken apart by tensor: what an implementation's own formula says, and the rest.

The parts and `unexplained` always add up to what was measured. `unexplained` is negative where the
formula says more than there was.
"""

from assay.errors import BadInput
from assay.instruments.reading import Peak
from assay.records.schema import Measurement
from assay.subjects.contract import Subject

REST = "unexplained"


def parts(subject: Subject, *, training: bool) -> dict[str, int]:
    """Bytes above the inputs at the peak, by tensor; results alone where there is no formula."""
    memory = getattr(subject.implementation, "memory", None)
    if memory is None:
        return subject.result_bytes(training=training)
    device = subject.device.partition(":")[0]
    sizes = memory(subject.workload.spec, training=training, device=device)
    sound = isinstance(sizes, dict) and all(
        isinstance(name, str) and isinstance(size, int) and size >= 0
        for name, size in sizes.items()
    )
    if not sound or REST in sizes:
        raise BadInput(
            f"memory() of {subject.name} gave {sizes!r}; wanted bytes by tensor name, "
            f"whole and not negative, none of them called {REST}"
        )
    return sizes


def broken_down(metric: str, peak: Peak, explained: dict[str, int]) -> list[Measurement]:
    """The peak, its parts, and what they leave unexplained."""
    rest, source, reason = None, None, f"{metric} was not measured: {peak.reason}"
    if peak.value is not None:
        rest, reason = peak.value - sum(explained.values()), None
        source = f"{metric} as measured, minus its parts"
        source += "; negative: the formula says more than there was" if rest < 0 else ""
    named = [_part(metric, name, size, source="formula") for name, size in explained.items()]
    unexplained = _part(metric, REST, rest, source=source, reason=reason)
    return [peak.measurement(metric, "B"), *named, unexplained]


def _part(
    metric: str, name: str, size: float | None, *, source: str | None, reason: str | None = None
) -> Measurement:
    return Measurement(
        metric=f"{metric}.{name}",
        value=size,
        unit="B",
        source=source,
        reason=reason,
        level="kernel",
    )
