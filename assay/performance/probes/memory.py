"""Memory above the inputs: the peak of forward and of both passes by tensor, and what is saved."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from assay.host import Host
from assay.instruments.reading import Peak, Reading
from assay.performance.memory import isolated, model
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject
from assay.workloads.workload import Workload

_NO_BACKWARD = "it has no backward pass here"
Read = TypeVar("Read", bound=Reading)


def measure(call: SequenceSubject, workload: Workload, host: Host) -> list[Measurement]:
    """Peaks with their parts, bytes saved for the backward, and what the allocator reserved."""
    forward, training = _peaks(call)
    saved = _saved(call)
    found = []
    for metric, peak, both in (
        ("forward_peak_bytes", forward, False),
        ("training_peak_bytes", training, True),
    ):
        if peak is None:
            found.append(Reading(value=None, reason=_NO_BACKWARD).measurement(metric, "B"))
            continue
        explained = model.parts(
            call.implementation, workload.spec, training=both, device=call.device
        )
        peak = _plausible(peak, workload, training=both, saved=saved)
        found += model.broken_down(metric, peak, explained)
    found.append(saved.measurement("saved_bytes", "B"))
    both = training is not None and training.reserved_bytes is not None
    return found + _reserved(training if both else forward, "both passes" if both else "forward")


def _peaks(call: SequenceSubject) -> tuple[Peak, Peak | None]:
    """By the framework's own account, or where it keeps none, that of a process of its own."""
    peak = partial(call.framework.peak, call.apply, call.inputs, device=call.device)
    forward = peak()
    if forward is None:
        return isolated.peaks(call)
    if not call.has_backward:
        return forward, None
    return forward, _unless_short(call, partial(peak, grad_out=call.grad_out), Peak)


def _plausible(peak: Peak, workload: Workload, *, training: bool, saved: Reading) -> Peak:
    """The peak, or null with the reason where it is less than what must have been there: the
    results that a call returns and, in training, what autograd saved."""
    least, of_what = sum(model.results(workload.spec, training=training).values()), "its results"
    if training and saved.value is not None and saved.value > least:
        least, of_what = int(saved.value), "what is saved for the backward"
    if peak.value is None or peak.value >= least:
        return peak
    reason = f"{peak.value:,.0f} B was read, less than the {least:,} B of {of_what}"
    return Peak(value=None, reason=f"{reason}: the instrument misses memory ({peak.source})")


def _saved(call: SequenceSubject) -> Reading:
    if not call.has_backward:
        return Reading(value=None, reason=_NO_BACKWARD)
    saved = partial(call.framework.saved_bytes, call.apply, call.inputs, call.options)
    return _unless_short(call, saved, Reading)


def _unless_short(call: SequenceSubject, read: Callable[[], Read], kind: type[Read]) -> Read:
    """What `read` gives; where memory runs out in it, what was read before is still good."""
    try:
        return read()
    except Exception as error:
        if not (isinstance(error, MemoryError) or call.framework.out_of_memory(error)):
            raise
        reason = f"{type(error).__name__}: {error}"
    # Here the error is gone, and with it the tensors that its frames held.
    call.framework.empty_cache(call.device)
    return kind(value=None, reason=reason, status="oom")


def _reserved(peak: Peak, passes: str) -> list[Measurement]:
    """Only where a device has an allocator that says so."""
    if peak.reserved_bytes is None:
        return []
    about = f"of {passes}, caches emptied before; the inputs of the whole cell included"
    reserved = Reading(value=peak.reserved_bytes, source=f"torch.cuda.max_memory_reserved {about}")
    ratio = Reading(
        value=peak.fragmentation,
        source=f"max_memory_reserved over max_memory_allocated {about}",
        reason=None if peak.fragmentation else "no memory was allocated",
    )
    return [
        reserved.measurement("reserved_peak_bytes", "B"),
        ratio.measurement("fragmentation", "ratio"),
    ]
