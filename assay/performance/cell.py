"""Everything that is measured of one workload, in one process: probes over subjects.

A paired probe is called in interleaved rounds (assay/performance/rounds.py), any other once for
each subject. A subject that fails is its own outcome, and the others go on.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np

from assay import plugins, subjects
from assay.attention import contract
from assay.correctness.refusal import refusal_text
from assay.errors import BadInput
from assay.host import Host, inspect
from assay.instruments import guard, machine_load
from assay.performance import calibration, rounds
from assay.performance.admission import Admission
from assay.performance.rounds import RoundSettings
from assay.records.schema import Measurement
from assay.subjects.contract import Subject
from assay.subjects.outcome import Begin, InputsChanged, Unsupported, outcome_of
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload

SEQUENCE = "sequence"
_BACKWARD = {"gradients", "backward", "training"}  # probes that send dO back


@dataclass(frozen=True, kw_only=True)
class CellRequest:
    """Probes, subjects and workload of a cell. `kind` is the folder of the implementations."""

    probes: tuple[str, ...]
    workload: WorkloadSpec
    subjects: tuple[str, ...]
    device: str
    settings: RoundSettings
    kind: str = SEQUENCE
    folders: Sequence[Path] = ()


def run(request: CellRequest, host: Host) -> Iterator[Begin | Measurement]:
    """Measurements of each subject as they are complete: first what others need to hold, then what
    is timed, then the rest. Whoever replaces what measuring relies on has none."""
    load = machine_load.read()
    with guard.watched():
        yield from _run(request, host)
    if request.settings.rounds:
        yield from machine_load.remarks(load)


def _run(request: CellRequest, host: Host) -> Iterator[Begin | Measurement]:
    try:
        probes = {
            name: plugins.load(plugins.find("probes", name, request.folders))
            for name in request.probes
        }
        inputs = subjects.kind_named(request.kind).make(request.workload)
        _require_finite(inputs)
        _load_frameworks(request)
    except (BadInput, Unsupported, MemoryError) as error:
        yield from (_outcome(name, request, error, "load") for name in request.subjects)
        return
    bound: dict[str, Subject] = {}
    placed: dict = {}
    is_timed = any(getattr(probe, "PAIRED", False) for probe in probes.values())
    start = time.monotonic()
    for name in request.subjects:
        yield Begin(name)
        try:
            with guard.refusing():
                subject, prepared = _prepared(name, inputs, request, host, placed)
            yield _of(subject, prepared)
            if is_timed:
                if request.kind == SEQUENCE:
                    subject = subject.compiled()
                with guard.refusing():
                    first = _first_call(subject)
                yield _of(subject, first)
            bound[name] = _as_in_models(subject, request)
        except BadInput as error:
            yield _outcome(name, request, error, "load")
        except Exception as error:
            yield _outcome(name, request, error)
    print(f"inputs, loading and first calls: {time.monotonic() - start:.1f} s")
    admission = Admission(probes)
    for name in admission.in_order():
        probe, allowed = probes[name], _of_frameworks(probes[name], bound)
        refusals = admission.refusals(name, allowed) | _uncalibrated(name, probe, allowed)
        for refused, refusal in refusals.items():
            yield _of(allowed.pop(refused), refusal)
        measure = _paired if getattr(probe, "PAIRED", False) else _one_by_one
        start = time.monotonic()
        for item in measure(name, probe, allowed, request, host):
            yield admission.admit(name, item) if isinstance(item, Measurement) else item
        print(f"{name}: {time.monotonic() - start:.1f} s for {len(allowed)} subjects")


def run_alone(
    request: CellRequest, metric: str, measure: Callable[[Subject, Host], Iterable[Measurement]]
) -> Iterator[Begin | Measurement]:
    """Apply `measure` to the one subject of a request; a failure is under `metric`."""
    (name,) = request.subjects
    yield Begin(name)
    host, kind = inspect(commit=False), subjects.kind_named(request.kind)
    try:
        inputs = kind.make(request.workload)
        subject = kind.bind(name, inputs, host=host, device=request.device, folders=request.folders)
        for measurement in measure(subject, host):
            yield _of(subject, measurement)
    except Exception as error:
        yield outcome_of(error, subject=name, metric=metric, workload=request.workload)


def _load_frameworks(request: CellRequest) -> None:
    """Bind what the frameworks measure with before any code of a user's is loaded."""
    listed = plugins.listing("frameworks")
    for name in request.subjects if request.kind == SEQUENCE else ():
        framework = plugins.find(request.kind, name, request.folders).literals["FRAMEWORK"]
        if framework in listed and not listed[framework].missing:
            plugins.load(listed[framework])
    guard.refuse_replaced()  # notes their names


def _of_frameworks(probe: ModuleType, bound: dict[str, Subject]) -> dict[str, Subject]:
    """The subjects that a probe is for."""
    wanted = getattr(probe, "FRAMEWORKS", ())
    return {
        name: subject
        for name, subject in bound.items()
        if not wanted or subject.implementation.framework in wanted
    }


def _uncalibrated(
    name: str, probe: ModuleType, allowed: dict[str, Subject]
) -> dict[str, Measurement]:
    """Subjects whose framework has an instrument that the probe needs and that is not believed."""
    instruments = getattr(probe, "INSTRUMENTS", ())
    return {
        subject_name: Measurement(
            metric=name, value=None, unit="", status="refused", reason=reason, alone=True
        )
        for subject_name, subject in allowed.items()
        if (reason := calibration.problem(instruments, subject.framework, subject.device))
    }


def _require_finite(inputs: object) -> None:
    """Refuse a captured call with NaN or infinity: no output is right then. Where some keys are
    hidden, what they hold need not matter."""
    if not isinstance(inputs, Workload) or not inputs.spec.captured or inputs.spec.extras:
        return
    arrays = {"q": inputs.q, "k": inputs.k, "v": inputs.v}
    counts = {name: int((~np.isfinite(array)).sum()) for name, array in arrays.items()}
    if any(counts.values()):
        words = ", ".join(f"{count:,} of {name}" for name, count in counts.items() if count)
        raise Unsupported(f"its captured inputs are not finite ({words}): no output is right")


def _prepared(
    name: str, inputs: object, request: CellRequest, host: Host, placed: dict
) -> tuple[Subject, Measurement]:
    """A subject, and how long it took to load, place and compile it."""
    start = time.perf_counter()
    subject = subjects.kind_named(request.kind).bind(
        name, inputs, host=host, device=request.device, folders=request.folders, placed=placed
    )
    subject.synchronize()
    elapsed_ms = (time.perf_counter() - start) * 1e3
    source = "host clock: import, prepare and, where no other had done it, placing the inputs"
    return subject, Measurement(metric="prepare_ms", value=elapsed_ms, unit="ms", source=source)


def _first_call(subject: Subject) -> Measurement:
    """Time the first forward call: it may compile."""
    before, start = rounds.checksums(subject), time.perf_counter()
    out = subject()
    subject.synchronize()
    elapsed_ms = (time.perf_counter() - start) * 1e3
    del out
    rounds.refuse_changes(subject, before)
    source = "host clock around the first forward call, device synchronised after"
    return Measurement(metric="first_call_ms", value=elapsed_ms, unit="ms", source=source)


def _as_in_models(subject: Subject, request: CellRequest) -> Subject:
    """The subject with dO lying in memory as a model sends it back, unless it refuses that."""
    if request.kind != SEQUENCE or not (subject.has_backward and _BACKWARD & {*request.probes}):
        return subject
    laid_out = subject.as_in_models()
    try:
        if laid_out is not subject:
            laid_out.gradients()
    except Exception as error:
        return subject if refusal_text(error) else laid_out  # which its probes will tell
    return laid_out


def _one_by_one(
    probe_name: str,
    probe: ModuleType,
    bound: dict[str, Subject],
    request: CellRequest,
    host: Host,
) -> Iterator[Begin | Measurement]:
    measure = rounds.applied(probe, host)
    for name, subject in bound.items():
        yield Begin(name)
        start, before = time.monotonic(), rounds.checksums(subject)
        try:
            with guard.refusing():
                measurements = measure(subject)
            for measurement in measurements:
                yield _of(subject, measurement)
            rounds.refuse_changes(subject, before)
        except Exception as error:
            if rounds.checksums(subject) != before:
                subject.restore()  # others are given the same
            yield _outcome(name, request, error, probe_name)
        print(f"  {probe_name} of {name}: {time.monotonic() - start:.1f} s")


def _paired(
    probe_name: str,
    probe: ModuleType,
    bound: dict[str, Subject],
    request: CellRequest,
    host: Host,
) -> Iterator[Begin | Measurement]:
    """Interleaved rounds, and after them a look at the inputs that all were given."""
    before = {name: rounds.checksums(subject) for name, subject in bound.items()}
    measurements: list[Measurement] = []
    for item in rounds.interleaved(probe, bound, host, request.settings):
        if isinstance(item, Begin):
            yield item
        elif isinstance(item, rounds.Failed):
            yield _outcome(item.subject, request, item.error, probe_name)
        else:
            measurements.append(item)
    changed = [name for name in before if rounds.checksums(bound[name]) != before[name]]
    for name in changed:
        bound[name].restore()
        error = InputsChanged("its inputs were changed while it was timed")
        yield _outcome(name, request, error, probe_name)
    for measurement in measurements:
        if measurement.subject not in changed:
            owner = bound.get(measurement.subject) or next(iter(bound.values()))
            yield _of(owner, measurement, name=measurement.subject)


def _of(subject: Subject, measurement: Measurement, name: str = "") -> Measurement:
    """The measurement with its subject, workload and, above kernels, its level."""
    level = measurement.level if subject.level == "kernel" else subject.level
    return msgspec.structs.replace(
        measurement, subject=name or subject.name, workload=subject.identity, level=level
    )


def _outcome(
    name: str, request: CellRequest, error: Exception, metric: str | None = None
) -> Measurement:
    """A failure under the name of its probe, of all of them, or `load`."""
    metric = metric or "+".join(request.probes)
    outcome = outcome_of(error, subject=name, metric=metric, workload=request.workload)
    certain = outcome.status == "oom" and _cannot_fit(name, request)
    return msgspec.structs.replace(outcome, alone=certain or len(request.subjects) == 1)


def _cannot_fit(name: str, request: CellRequest) -> bool:
    """Tell whether by its own formula an implementation needs more than its device has."""
    if request.kind != SEQUENCE:
        return False
    implementation = contract.load(name, request.folders)
    device = next((d for d in inspect(commit=False).devices if d.label == request.device), None)
    if implementation.memory is None or device is None or not device.memory_bytes:
        return False
    kind = "cpu" if device.kind == "cpu" else "cuda"
    parts = implementation.memory(request.workload, training=False, device=kind)
    return sum(parts.values()) > device.memory_bytes
