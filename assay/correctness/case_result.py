"""One probe on one case: what it measured, or how the implementation refused or failed."""

import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from assay.correctness import judge, second_process
from assay.correctness.refusal import refusal_text
from assay.correctness.tested import TestedImplementation
from assay.errors import BadInput
from assay.instruments import guard, launches, progress
from assay.instruments.guard import Tampered
from assay.instruments.out_of_memory import is_of_device, ran_out
from assay.records import verdicts
from assay.records.durable import is_full
from assay.records.foreign_text import first_line
from assay.records.schema import Measurement, Status
from assay.subjects.outcome import Unsupported, apply_probe, device_lost, lack_of_memory
from assay.subjects.sequence import framework_of
from assay.workloads.spec import WorkloadSpec

_PLAIN = (64, 128, 256)  # lengths that most kernels take
FAILED = ("failed", "oom")


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """Outcome of one probe on one case."""

    spec: WorkloadSpec
    status: Status
    share: float | None = None  # of the error budget
    reason: str | None = None  # where it is ok: a part that was left out
    cause: str | None = None
    ended: bool = False  # its process, so the case is not run again
    data: dict[str, Any] | None = None  # of what may be the doing of those who hold the device


@dataclass(frozen=True, kw_only=True)
class EndedCase:
    """A case at which an earlier process ended: the probe, and the name of the workload."""

    probe: str
    case: str
    reason: str
    cause: str


def run_case(tested: TestedImplementation, probe: ModuleType, spec: WorkloadSpec) -> CaseResult:
    """Run one probe on one case; an exception of the implementation is an outcome too."""
    progress.watch_compilers()
    try:
        framework = framework_of(tested.implementation)
        with guard.refusing(), second_process.repeatable(framework):
            call = tested.bind(spec)
            measurements = apply_probe(probe, call, call.workload, tested.host)
    except Unsupported as refusal:
        return CaseResult(spec=spec, status="unsupported", reason=str(refusal))
    except (judge.MalformedResult, BadInput, Tampered) as error:
        if is_full(error):
            raise
        return CaseResult(spec=spec, status="failed", reason=str(error))
    except Exception as error:
        if device_lost(error) or is_full(error):
            raise  # nothing works here any more; a new process goes on, or once there is space
        refusal = refusal_text(error) or launches.beyond_grid(error, spec.batch * spec.heads)
        if not refusal and launches.was_refused(error) and _launches_nothing(tested, spec):
            refusal = f"every launch is refused ({type(error).__name__}: {first_line(error, 200)})"
        if refusal:
            return CaseResult(spec=spec, status="unsupported", reason=refusal)
        traceback.print_exception(error, file=sys.stderr)
        reason = f"raises {type(error).__name__}: {first_line(error, 300)}"
        status: Status = "failed"
        if ran_out(error):
            status, reason = "oom", lack_of_memory(error, reason)[1]  # not run is not passed over
        data = verdicts.DEVICE_ERROR if is_of_device(error) else None
        return CaseResult(spec=spec, status=status, reason=reason, data=data)
    return _case_result(spec, measurements)


def _launches_nothing(tested: TestedImplementation, spec: WorkloadSpec) -> bool:
    """Return whether launches are refused at plain lengths too, and none is taken."""
    refused = False
    for length in _PLAIN:
        try:
            call = tested.bind(replace(spec, batch=1, query_length=length, key_length=length))
            call()
            call.synchronize()
            return False
        except Exception as error:
            if device_lost(error):
                raise
            refused = refused or launches.was_refused(error)
    return refused


def _case_result(spec: WorkloadSpec, measurements: Sequence[Measurement]) -> CaseResult:
    """Return the first failure among a case's measurements, which may be on a case of its own, or
    else the largest share."""
    failed = next((m for m in measurements if m.status not in ("ok", "unsupported")), None)
    if failed:
        own_case = WorkloadSpec(**failed.workload.spec) if failed.workload else None
        return CaseResult(
            spec=own_case or spec,
            status=failed.status,
            share=failed.value if failed.unit == "ratio" else None,
            reason=failed.reason,
            cause=failed.cause,
            data=failed.data,
        )
    shares = [m.value for m in measurements if m.unit == "ratio" and m.value is not None]
    if not shares:
        reason = measurements[0].reason if measurements else "the probe measured nothing"
        return CaseResult(spec=spec, status="unsupported", reason=reason)
    left_out = next((m.reason for m in measurements if m.status == "unsupported"), None)
    return CaseResult(spec=spec, status="ok", share=max(shares), reason=left_out)
