"""Samples of several implementations side by side: interleaved rounds whose order alternates.

Drift of the machine falls on all of them alike. Every round has inputs of its own: v times a power
of two that nobody knows beforehand (assay/performance/answers.py). No sample is left out.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from types import ModuleType

import msgspec

from assay.errors import BadInput
from assay.host import Host
from assay.instruments.telemetry import Telemetry
from assay.performance.answers import FACTORS, Answers
from assay.performance.timing import Timer
from assay.records.schema import Measurement
from assay.subjects.outcome import InputsChanged
from assay.subjects.sequence import SequenceSubject
from assay.workloads.workload import Workload

STABLE = 0.05  # by how much the medians of two windows of warm-up may differ
_WINDOW = 3
_MOST_WARMUP_MS = 2000.0  # after which what is still not stable is measured as it is
_SHORTEST_WARMUP = 2  # calls: the first may compile
_FEWEST = 6  # rounds; with fewer, two cannot be compared

Measure = Callable[[SequenceSubject], list[Measurement]]  # what a probe says of one call

WRITES = "it writes into its inputs; what it is given must stay as it was"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many calls are made before, at least, and how many are timed. After _FEWEST rounds, who
    has taken more than `budget_s` sits the others out: the rounds it has are the first ones."""

    warmup: int
    rounds: int
    budget_s: float


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A subject that gets no samples, and why."""

    subject: str
    error: Exception


def interleaved(
    probe: ModuleType,
    calls: dict[str, SequenceSubject],
    workload: Workload,
    host: Host,
    plan: Plan,
    answers: Answers,
) -> Iterator[str | Failed | tuple[str, Measurement]]:
    """The name of each subject before its turn, and its measurements, or why there are none."""
    running = {
        name: replace(call, timer=Timer(call=call, answers=answers), state={})
        for name, call in calls.items()
    }
    generator = random.SystemRandom()

    def measure(call: SequenceSubject) -> list[Measurement]:
        return measured(probe.measure(call, workload, host))

    for name, call in list(running.items()):
        yield name
        try:
            for measurement in warm_up(call, measure, generator, plan.warmup):
                yield name, measurement
        except Exception as error:
            del running[name]
            yield Failed(subject=name, error=error)
    device = next(iter(calls.values())).device if calls else ""
    telemetry = Telemetry(host, device)
    samples: dict[str, list[list[Measurement]]] = {name: [] for name in running}
    spent_s = dict.fromkeys(running, 0.0)
    for number in range(plan.rounds):
        factor = generator.choice(FACTORS)
        for name in list(running) if number % 2 == 0 else list(reversed(running)):
            if number >= _FEWEST and spent_s[name] > plan.budget_s:
                continue
            yield name
            begun = time.perf_counter()
            try:
                with running[name].framework.annotated(f"{name} round {number}", device):
                    samples[name].append(measure(turned(running[name], factor)))
            except Exception as error:
                del running[name]
                yield Failed(subject=name, error=error)
            spent_s[name] += time.perf_counter() - begun
        telemetry.read()
    for name in running:
        for measurement in gathered(samples[name]):
            yield name, measurement
    if running:
        metric = samples[next(iter(running))][0][0].metric
        for reading in telemetry.measurements():
            yield device, msgspec.structs.replace(reading, metric=f"{metric}.{reading.metric}")


def turned(call: SequenceSubject, factor: float) -> SequenceSubject:
    """The call on values of its own: what it may write into v reaches no other."""
    q, k, v = call.inputs
    call.timer.factor = factor
    return replace(call, inputs=(q, k, call.framework.times(v, factor)))


def warm_up(
    call: SequenceSubject, measure: Measure, generator: random.SystemRandom, least: int
) -> Iterator[Measurement]:
    """At least that many calls, until two windows of them agree; the first, which may compile, is
    told apart."""
    call.framework.empty_cache(call.device)
    before = checksums(call)
    taken: list[Measurement] = []
    try:
        with call.framework.annotated(f"{call.name} warm-up", call.device):
            while not _warm([one.samples[0] for one in taken], least):
                one, *_ = measure(turned(call, generator.choice(FACTORS)))
                taken.append(one)
    finally:
        if checksums(call) != before:
            restore(call)
            raise InputsChanged(WRITES)
    samples, metric = [one.samples[0] for one in taken], taken[0].metric
    told = {"unit": "ms", "source": f"{taken[0].source}; not among the samples"}
    yield Measurement(metric=f"{metric}.first", value=samples[0], **told)
    yield Measurement(metric=f"{metric}.warmup", value=sum(samples), samples=samples, **told)


def _warm(samples: list[float], least: int) -> bool:
    count = len(samples)
    if count < _SHORTEST_WARMUP:
        return False
    if sum(samples[1:]) > _MOST_WARMUP_MS:
        return True
    if count < max(least, 2 * _WINDOW):
        return False
    last, before = median(samples[-_WINDOW:]), median(samples[-2 * _WINDOW : -_WINDOW])
    return abs(last / before - 1) < STABLE if before else True


def checksums(call: SequenceSubject) -> list[int]:
    """Of the inputs, as they are now."""
    return [call.framework.checksum(array) for array in call.inputs]


def restore(call: SequenceSubject) -> None:
    """The inputs as they should be, for the subjects that share them."""
    workload = call.workload
    for array, right in zip(call.inputs, (workload.q, workload.k, workload.v), strict=True):
        call.framework.overwrite(array, call.placed(right, workload.spec.layout))


def measured(returned: object) -> list[Measurement]:
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


def gathered(rounds: list[list[Measurement]]) -> Iterator[Measurement]:
    """One measurement per metric with the samples of all rounds; its value is their median."""
    for same_metric in zip(*rounds, strict=True):
        samples = [sample for measurement in same_metric for sample in measurement.samples]
        yield msgspec.structs.replace(same_metric[0], samples=samples, value=median(samples))
