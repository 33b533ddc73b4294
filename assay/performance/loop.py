"""Runs probes over implementations on one workload, in one process.

A paired probe is called in interleaved rounds (assay/performance/rounds.py); any other probe is
called once for each implementation. What one implementation does wrong is its own outcome and the
others go on.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import msgspec

from assay import plugins
from assay.attention import contract
from assay.captures.inputs import make
from assay.errors import BadInput
from assay.host import Host, inspect
from assay.performance import rounds
from assay.performance.answers import Answers
from assay.performance.audit import Audit
from assay.performance.gates import Gates
from assay.records.schema import Measurement
from assay.subjects.outcome import Begin, InputsChanged, outcome_of
from assay.subjects.sequence import Placed, SequenceSubject, bind
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to measure."""

    probes: tuple[str, ...]
    workload: WorkloadSpec
    subjects: tuple[str, ...]
    device: str
    warmup: int
    rounds: int
    budget_s: float = math.inf  # for the rounds of one subject and probe
    folders: Sequence[Path] = ()


def run(request: Request, host: Host) -> Iterator[Begin | Measurement]:
    """Measurements of each subject as they are complete: first what others need to hold, then what
    is timed, then the rest."""
    try:
        probes = {
            name: plugins.load(plugins.find("probes", name, request.folders))
            for name in request.probes
        }
        workload = make(request.workload)
    except BadInput as error:
        yield from (_outcome(subject, request, error, "load") for subject in request.subjects)
        return
    calls: dict[str, SequenceSubject] = {}
    placed: Placed = {}
    for subject in request.subjects:
        yield Begin(subject)
        try:
            call, prepared = _prepared(subject, workload, request, host, placed)
            yield _of(subject, workload, prepared)
            if any(getattr(probe, "PAIRED", False) for probe in probes.values()):
                yield _of(subject, workload, _first_call(call))
            calls[subject] = call
        except BadInput as error:
            yield _outcome(subject, request, error, "load")
        except Exception as error:
            yield _outcome(subject, request, error)
    audit, gates = Audit(), Gates(probes)
    for name in gates.in_order():
        probe, allowed = probes[name], _of_frameworks(probes[name], calls)
        for subject, refusal in gates.refusals(name, allowed).items():
            del allowed[subject]
            yield _of(subject, workload, refusal)
        measured = _paired if getattr(probe, "PAIRED", False) else _one_by_one
        begun = time.monotonic()
        for item in measured(name, probe, allowed, workload, request, host):
            if isinstance(item, Measurement):
                item = audit.believed(item)
                gates.saw(name, item)
            yield item
        print(f"{name}: {time.monotonic() - begun:.1f} s for {len(allowed)} subjects")


def _of_frameworks(
    probe: ModuleType, calls: dict[str, SequenceSubject]
) -> dict[str, SequenceSubject]:
    """The calls that a probe is for."""
    wanted = getattr(probe, "FRAMEWORKS", ())
    return {
        name: call
        for name, call in calls.items()
        if not wanted or call.implementation.framework in wanted
    }


def _prepared(
    subject: str, workload: Workload, request: Request, host: Host, placed: Placed
) -> tuple[SequenceSubject, Measurement]:
    """A call, and how long it took to load, place and compile it."""
    start = time.perf_counter()
    call = bind(
        subject,
        workload,
        host=host,
        device=request.device,
        folders=request.folders,
        placed=placed,
    )
    call.synchronize()
    elapsed_ms = (time.perf_counter() - start) * 1e3
    source = "host clock: import, prepare and, where no other had done it, placing the inputs"
    return call, Measurement(metric="prepare_ms", value=elapsed_ms, unit="ms", source=source)


def _first_call(call: SequenceSubject) -> Measurement:
    """What is timed later is called once before anything else: the first call may compile."""
    before, start = rounds.checksums(call), time.perf_counter()
    out = call()
    call.synchronize()
    elapsed_ms = (time.perf_counter() - start) * 1e3
    del out
    if rounds.checksums(call) != before:
        rounds.restore(call)
        raise InputsChanged(rounds.WRITES)
    source = "host clock around the first forward call, device synchronised after"
    return Measurement(metric="first_call_ms", value=elapsed_ms, unit="ms", source=source)


def _one_by_one(
    name: str,
    probe: ModuleType,
    calls: dict[str, SequenceSubject],
    workload: Workload,
    request: Request,
    host: Host,
) -> Iterator[Begin | Measurement]:
    for subject, call in list(calls.items()):
        yield Begin(subject)
        begun, before = time.monotonic(), rounds.checksums(call)
        try:
            for measurement in rounds.measured(probe.measure(call, workload, host)):
                yield _of(subject, workload, measurement)
            if rounds.checksums(call) != before:
                raise InputsChanged(rounds.WRITES)
        except Exception as error:
            if rounds.checksums(call) != before:
                rounds.restore(call)  # others are given the same
            yield _outcome(subject, request, error, name)
        print(f"  {name} of {subject}: {time.monotonic() - begun:.1f} s")


def _paired(
    name: str,
    probe: ModuleType,
    calls: dict[str, SequenceSubject],
    workload: Workload,
    request: Request,
    host: Host,
) -> Iterator[Begin | Measurement]:
    """Interleaved rounds, and after them a look at the inputs that all were given."""
    before = {subject: rounds.checksums(call) for subject, call in calls.items()}
    plan = rounds.Plan(warmup=request.warmup, rounds=request.rounds, budget_s=request.budget_s)
    found: list[Measurement] = []
    for item in rounds.interleaved(probe, calls, workload, host, plan, Answers.of(workload)):
        if isinstance(item, str):
            yield Begin(item)
        elif isinstance(item, rounds.Failed):
            yield _outcome(item.subject, request, item.error, name)
        else:
            subject, measurement = item
            found.append(_of(subject, workload, measurement))
    changed = [subject for subject in before if rounds.checksums(calls[subject]) != before[subject]]
    for subject in changed:
        rounds.restore(calls[subject])
        error = InputsChanged("its inputs were changed while it was timed")
        yield _outcome(subject, request, error, name)
    yield from (measurement for measurement in found if measurement.subject not in changed)


def _of(subject: str, workload: Workload, measurement: Measurement) -> Measurement:
    return msgspec.structs.replace(measurement, subject=subject, workload=workload.identity)


def _outcome(
    subject: str, request: Request, error: Exception, metric: str | None = None
) -> Measurement:
    """A failure under the name of its probe, of all of them, or `load`."""
    found = outcome_of(
        error,
        subject=subject,
        metric=metric or "+".join(request.probes),
        workload=request.workload,
    )
    certain = found.status == "oom" and cannot_fit(subject, request)
    return msgspec.structs.replace(found, alone=certain or len(request.subjects) == 1)


def cannot_fit(subject: str, request: Request) -> bool:
    """Whether by its own formula an implementation needs more than its device has."""
    implementation = contract.load(subject, request.folders)
    device = next((d for d in inspect().devices if d.label == request.device), None)
    if implementation.memory is None or device is None or not device.memory_bytes:
        return False
    kind = "cpu" if device.kind == "cpu" else "cuda"
    parts = implementation.memory(request.workload, training=False, device=kind)
    return sum(parts.values()) > device.memory_bytes
