"""Runs probes over implementations on one workload, in one process.

A paired probe is called in interleaved rounds whose order alternates, so that drift of the machine
falls on all implementations alike; any other probe is called once for each. What one
implementation does wrong is its own outcome and the others go on.
"""

import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import ModuleType

import msgspec

from assay import plugins
from assay.bench.call import Call, Unsupported, bind
from assay.errors import BadInput
from assay.host import Host
from assay.records.schema import Measurement, Status
from assay.workloads.spec import WorkloadSpec
from assay.workloads.synthetic import Workload, identity, make


class Begin(msgspec.Struct, frozen=True):
    """Says what is about to be worked on, so that a crash has a name."""

    subject: str
    probe: str = ""
    case: str = ""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to measure."""

    probes: tuple[str, ...]
    workload: WorkloadSpec
    subjects: tuple[str, ...]
    device: str
    warmup: int
    rounds: int
    folders: Sequence[Path] = ()


def run(request: Request, host: Host) -> Iterator[Begin | Measurement]:
    """Measurements of each subject as they are complete."""
    try:
        probes = [
            plugins.load(plugins.find("probes", name, request.folders)) for name in request.probes
        ]
    except BadInput as error:
        yield from (_outcome(subject, request, error, "load") for subject in request.subjects)
        return
    workload = make(request.workload)
    calls: dict[str, Call] = {}
    for subject in request.subjects:
        yield Begin(subject)
        try:
            calls[subject], prepared = _prepared(subject, workload, request, host)
            yield _of(subject, workload, prepared)
        except BadInput as error:
            yield _outcome(subject, request, error, "load")
        except Exception as error:
            yield _outcome(subject, request, error)
    for probe in probes:
        measured = _interleaved if getattr(probe, "PAIRED", False) else _one_by_one
        yield from measured(probe, calls, workload, request, host)


def _prepared(
    subject: str, workload: Workload, request: Request, host: Host
) -> tuple[Call, Measurement]:
    """A call, and how long it took to load, place and compile it."""
    start = time.perf_counter()
    call = bind(subject, workload, host=host, device=request.device, folders=request.folders)
    call.synchronize()
    elapsed_ms = (time.perf_counter() - start) * 1e3
    source = "host clock: import, prepare and placing the inputs"
    return call, Measurement(metric="prepare_ms", value=elapsed_ms, unit="ms", source=source)


def _one_by_one(
    probe: ModuleType, calls: dict[str, Call], workload: Workload, request: Request, host: Host
) -> Iterator[Begin | Measurement]:
    for subject, call in calls.items():
        yield Begin(subject)
        try:
            for measurement in _values(probe.measure(call, workload, host)):
                yield _of(subject, workload, measurement)
        except Exception as error:
            yield _outcome(subject, request, error)


def _interleaved(
    probe: ModuleType, calls: dict[str, Call], workload: Workload, request: Request, host: Host
) -> Iterator[Begin | Measurement]:
    rounds: dict[str, list[list[Measurement]]] = {subject: [] for subject in calls}
    running = dict(calls)
    for subject, call in calls.items():
        yield Begin(subject)
        try:
            yield _of(subject, workload, _warm_up(call, request.warmup))
        except Exception as error:
            del running[subject]
            yield _outcome(subject, request, error)
    for number in range(request.rounds):
        order = list(running) if number % 2 == 0 else list(reversed(running))
        for subject in order:
            yield Begin(subject)
            try:
                rounds[subject].append(_values(probe.measure(calls[subject], workload, host)))
            except Exception as error:
                del running[subject]
                yield _outcome(subject, request, error)
    for subject in running:
        for measurement in _gathered(rounds[subject]):
            yield _of(subject, workload, measurement)


def _warm_up(call: Call, count: int) -> Measurement:
    """Unmeasured calls; the first of them, which may compile, is reported apart."""
    call.synchronize()
    start = time.perf_counter()
    call()
    call.synchronize()
    first_ms = (time.perf_counter() - start) * 1e3
    for _ in range(count - 1):
        call()
    call.synchronize()
    source = "host clock around the first call, not among the samples"
    return Measurement(metric="first_call_ms", value=first_ms, unit="ms", source=source)


def _gathered(rounds: list[list[Measurement]]) -> Iterator[Measurement]:
    """One measurement per metric with the samples of all rounds; its value is their median."""
    for same_metric in zip(*rounds, strict=True):
        samples = [sample for measurement in same_metric for sample in measurement.samples]
        yield msgspec.structs.replace(same_metric[0], samples=samples, value=median(samples))


def _values(returned: Iterable[Measurement | dict]) -> list[Measurement]:
    """What a probe returned, which may be plain dicts with the fields of Measurement."""
    try:
        values = msgspec.convert(returned, list[Measurement], from_attributes=True)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"a probe returns a list of measurements; this one does not: {error}"
        ) from error
    if not values:
        raise BadInput("a probe returns at least one measurement; this one returned none")
    return values


def _of(subject: str, workload: Workload, measurement: Measurement) -> Measurement:
    return msgspec.structs.replace(measurement, subject=subject, workload=workload.identity)


def _outcome(
    subject: str, request: Request, error: Exception, metric: str | None = None
) -> Measurement:
    """A failure as a result like any other, under the probe's name or `load`; the traceback goes
    to the log."""
    status: Status = "failed"
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, BadInput):
        reason = str(error)
    elif isinstance(error, Unsupported):
        status, reason = "unsupported", str(error)
    elif out_of_memory(error):
        status = "oom"
    if status != "unsupported":
        traceback.print_exception(error, file=sys.stderr)
    return Measurement(
        subject=subject,
        metric=metric or "+".join(request.probes),
        value=None,
        unit="",
        status=status,
        reason=reason,
        workload=identity(request.workload),
    )


def out_of_memory(error: Exception) -> bool:
    """Whether memory ran out, the machine's or a device's."""
    return isinstance(error, MemoryError) or _says("out_of_memory", error)


def device_lost(error: Exception) -> bool:
    """Whether a device can no longer be used from this process."""
    return _says("device_lost", error)


def _says(question: str, error: Exception) -> bool:
    """Asks every framework that is loaded; one that is not cannot have raised it."""
    loaded = (name for name in plugins.listing("frameworks") if name in sys.modules)
    return any(
        getattr(plugins.load(plugins.find("frameworks", name)), question)(error) for name in loaded
    )
