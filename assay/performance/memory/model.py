"""A measured peak taken apart by tensor: what an implementation's own formula says, and the rest.

The parts and `unexplained` always add up to what was measured. `unexplained` is negative where the
formula says more than there was.
"""

from assay.attention.contract import Implementation
from assay.errors import BadInput
from assay.instruments.reading import Peak
from assay.records.schema import Measurement
from assay.workloads.spec import WorkloadSpec
from assay.workloads.work import key_bytes, query_bytes

REST = "unexplained"


def parts(
    implementation: Implementation, spec: WorkloadSpec, *, training: bool, device: str
) -> dict[str, int]:
    """Bytes above the inputs at the peak, by tensor; results alone where it has no formula."""
    if implementation.memory is None:
        return results(spec, training=training)
    found = implementation.memory(spec, training=training, device=device.partition(":")[0])
    sound = isinstance(found, dict) and all(
        isinstance(name, str) and isinstance(size, int) and size >= 0
        for name, size in found.items()
    )
    if not sound or REST in found:
        raise BadInput(
            f"memory() of {implementation.name} gave {found!r}; wanted bytes by tensor name, "
            f"whole and not negative, none of them called {REST}"
        )
    return found


def results(spec: WorkloadSpec, *, training: bool) -> dict[str, int]:
    """What every implementation must at least give back."""
    found = {"out": query_bytes(spec)}
    if training:
        found |= {"dq": query_bytes(spec), "dk": key_bytes(spec), "dv": key_bytes(spec)}
    return found


def broken_down(metric: str, peak: Peak, explained: dict[str, int]) -> list[Measurement]:
    """The peak, its parts, and what they leave unexplained."""
    rest, source, reason = None, None, f"{metric} was not measured: {peak.reason}"
    if peak.value is not None:
        rest, reason = peak.value - sum(explained.values()), None
        source = f"{metric} as measured, minus its parts"
        source += "; negative: the formula says more than there was" if rest < 0 else ""
    found = [peak.measurement(metric, "B")]
    found += [_part(metric, name, size, source="formula") for name, size in explained.items()]
    return [*found, _part(metric, REST, rest, source=source, reason=reason)]


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
