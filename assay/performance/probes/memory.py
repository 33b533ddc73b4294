"""Memory above the inputs: the peaks of both passes by tensor, saved bytes, workspaces."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from assay.host import Host
from assay.instruments.out_of_memory import ran_out
from assay.instruments.reading import Peak, Reading
from assay.performance.memory import formula, isolated
from assay.records.schema import Measurement
from assay.subjects.contract import Subject
from assay.subjects.outcome import lack_of_memory

INSTRUMENTS = ("memory", "saved")
_NO_BACKWARD = "it has no backward pass here"
Read = TypeVar("Read", bound=Reading)


def measure(subject: Subject, workload: object, host: Host) -> list[Measurement]:
    """Peaks with their parts, bytes saved for the backward, and what the allocator reserved."""
    forward, training = _peaks(subject)
    saved = _saved(subject)
    measurements = []
    for metric, peak, both in (
        ("forward_peak_bytes", forward, False),
        ("training_peak_bytes", training, True),
    ):
        if peak is None:
            measurements.append(Reading(value=None, reason=_NO_BACKWARD).measurement(metric, "B"))
            continue
        peak = _plausible(peak, subject, training=both, saved=saved)
        measurements += formula.broken_down(metric, peak, formula.parts(subject, training=both))
    measurements.append(saved.measurement("saved_bytes", "B"))
    if workspace := _workspace(subject):
        measurements.append(workspace.measurement("workspace_bytes", "B"))
    if training is not None and training.reserved_bytes is not None:
        return measurements + _reserved(training, "both passes")
    return measurements + _reserved(forward, "forward")


def _peaks(subject: Subject) -> tuple[Peak, Peak | None]:
    """By the framework's own account, or where it keeps none, that of a process of its own."""
    peak = partial(subject.framework.peak, subject.apply, subject.inputs, device=subject.device)
    forward = peak()
    if forward is None:
        return isolated.peaks(subject)
    if not subject.has_backward:
        return forward, None
    return forward, _unless_short(subject, partial(peak, grad_out=subject.grad_out), Peak)


def _plausible(peak: Peak, subject: Subject, *, training: bool, saved: Reading) -> Peak:
    """The peak, or null with the reason where it is less than what must have been there: the
    results that a call returns and, in training, what autograd saved."""
    least, of_what = sum(subject.result_bytes(training=training).values()), "its results"
    if training and saved.value is not None and saved.value > least:
        least, of_what = int(saved.value), "what is saved for the backward"
    if peak.value is None or peak.value >= least:
        return peak
    reason = f"{peak.value:,.0f} B was read, less than the {least:,} B of {of_what}"
    return Peak(value=None, reason=f"{reason}: the instrument misses memory ({peak.source})")


def _saved(subject: Subject) -> Reading:
    if not subject.has_backward:
        return Reading(value=None, reason=_NO_BACKWARD)
    arguments = (subject.apply, subject.inputs, subject.options)
    return _unless_short(subject, partial(subject.framework.saved_bytes, *arguments), Reading)


def _workspace(subject: Subject) -> Reading | None:
    """Bytes that libraries keep beside the peaks, on devices and in frameworks that say so."""
    if not hasattr(subject.framework, "workspace_bytes"):
        return None
    grad_out = subject.grad_out if subject.has_backward else None
    arguments = (subject.apply, subject.inputs, grad_out)
    read = partial(subject.framework.workspace_bytes, *arguments, device=subject.device)
    return _unless_short(subject, read, Reading)


def _unless_short(subject: Subject, read: Callable[[], Read], kind: type[Read]) -> Read:
    """Call `read`; where memory runs out in it, earlier readings stay valid."""
    try:
        return read()
    except Exception as error:
        if not ran_out(error):
            raise
        status, reason = lack_of_memory(error, f"{type(error).__name__}: {error}")
    # Here the error is gone, and with it the tensors that its frames held.
    subject.framework.empty_cache(subject.device)
    return kind(value=None, reason=reason, status=status)


def _reserved(peak: Peak, passes: str) -> list[Measurement]:
    """Bytes that the allocator took from the device, where it reports them."""
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
