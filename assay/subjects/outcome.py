"""Ends of work on a subject: refusals, wrong answers, lack of memory, a lost device.

A failure is a measurement like any other; what is raised here becomes one in `outcome_of`.
"""

import sys
import traceback
from types import ModuleType

import msgspec

from assay import plugins
from assay.attention import interpreted
from assay.errors import BadInput
from assay.host import Host
from assay.instruments import launches
from assay.instruments.guard import Tampered
from assay.instruments.out_of_memory import held_by_others, is_of_device, ran_out
from assay.records import verdicts
from assay.records.durable import is_full
from assay.records.schema import Measurement, Status
from assay.subjects.contract import Subject
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload, identity


class Begin(msgspec.Struct, frozen=True):
    """Announces what is worked on next, so that a crash has a name."""

    subject: str
    probe: str = ""
    case: str = ""


class Unsupported(Exception):
    """The implementation itself says that this workload is not for it."""


def require_backward(subject: Subject) -> None:
    """Raise Unsupported for a subject without a backward pass here."""
    if not subject.has_backward:
        raise Unsupported("it says that it has no backward here")


class WrongAnswer(Exception):
    """A timed call returned something else than attention of its inputs."""


class InputsChanged(Exception):
    """An implementation wrote into what it was given."""


def outcome_of(
    error: Exception, *, subject: str, metric: str, workload: WorkloadSpec | None = None
) -> Measurement:
    """A failure as a result like any other; the traceback goes to the log."""
    if device_lost(error) or is_full(error):
        raise error  # nothing works here any more; a new process goes on, or once there is space
    status: Status = "failed"
    reason = f"{type(error).__name__}: {error}"
    rows = workload.batch * workload.heads if workload else 0
    if words := interpreted.refusal_of(error) or launches.beyond_grid(error, rows):
        status, reason = "unsupported", words
    elif isinstance(error, BadInput | WrongAnswer | InputsChanged | Tampered):
        reason = str(error)
    elif isinstance(error, Unsupported):
        status, reason = "unsupported", str(error)
    elif ran_out(error):
        status, reason = lack_of_memory(error, reason)
    if status != "unsupported":
        traceback.print_exception(error, file=sys.stderr)
    return Measurement(
        subject=subject,
        metric=metric,
        value=None,
        unit="",
        status=status,
        reason=reason,
        workload=identity(workload) if workload else None,
        data=verdicts.DEVICE_ERROR if status != "unsupported" and is_of_device(error) else None,
    )


def apply_probe(
    probe: ModuleType, subject: Subject, workload: Workload, host: Host
) -> list[Measurement]:
    """Return what a probe measures. An error in the code of a user's probe is not told as the
    subject's: it is BadInput, with the place."""
    try:
        return measurements_of(probe.measure(subject, workload, host))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        if probe.__name__.startswith("assay.") or place.filename != probe.__file__:
            raise
        raise BadInput(
            f"the probe itself raises {type(error).__name__}: {error} ({place.filename}, line "
            f"{place.lineno}), so nothing was learned"
        ) from error


def measurements_of(returned: object) -> list[Measurement]:
    """Check what a probe returned, which may be plain dicts with the fields of Measurement."""
    try:
        values = msgspec.convert(returned, list[Measurement], from_attributes=True)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"a probe returns a list of measurements; this one does not: {error}"
        ) from error
    if not values:
        raise BadInput("a probe returns at least one measurement; this one returned none")
    return values


def lack_of_memory(error: Exception, reason: str) -> tuple[Status, str]:
    """Status and reason where memory ran out: on a GPU that others fill, it is not the subject that
    is too large, and nothing is known of it."""
    if others := held_by_others(error):
        return "refused", f"{others}, so nothing was learned; run it again alone ({reason})"
    return "oom", reason


def device_lost(error: Exception) -> bool:
    """True where a device can no longer be used from this process."""
    # A framework that is not loaded cannot have raised it.
    loaded = (name for name in plugins.listing("frameworks") if name in sys.modules)
    return any(plugins.load(plugins.find("frameworks", name)).device_lost(error) for name in loaded)
