"""Interleaved rounds: samples of several subjects side by side, in an order that alternates.

Drift of the machine falls on all of them alike. Every round has inputs of its own, which nobody
knows beforehand (assay/subjects/change.py). No sample is left out.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf
from statistics import median
from types import ModuleType

import msgspec

from assay.host import Host
from assay.instruments import guard
from assay.instruments.own_time import own_seconds
from assay.instruments.telemetry import Telemetry
from assay.laws.pairs import FEWEST_ROUNDS
from assay.performance.timer import Timer
from assay.records.schema import Measurement
from assay.subjects.change import InputChange, drawn
from assay.subjects.contract import Subject
from assay.subjects.outcome import Begin, InputsChanged, apply_probe

STABLE = 0.05  # by how much the medians of two windows of warm-up may differ
_WINDOW = 3
_MOST_WARMUP_MS = 1000.0  # after which a subject that is still not stable is measured as it is
_SHORTEST_WARMUP = 2  # calls: the first may compile

Measure = Callable[[Subject], list[Measurement]]  # a probe, applied to one subject


@dataclass(frozen=True, kw_only=True)
class RoundSettings:
    """Number of warm-up calls, at least, and of timed rounds. After FEWEST_ROUNDS,
    a subject that has taken more than `budget_s` sits the others out."""

    rounds: int
    warmup: int
    budget_s: float = inf


class Turns:
    """Order of turns: every subject once a round, every other round in reverse.

    The time until the next turn, less that in which others had the processor, is charged to the
    subject, which sits out once it is over budget.
    """

    def __init__(self, names: Iterable[str], *, rounds: int, budget_s: float = inf) -> None:
        self._names = list(names)
        self._rounds, self._budget_s = rounds, budget_s
        self._spent_s = dict.fromkeys(self._names, 0.0)

    def drop(self, name: str) -> None:
        """Give a subject no further turn."""
        self._names.remove(name)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield the number of a round and a name."""
        for number in range(self._rounds):
            for name in self._names[:: -1 if number % 2 else 1]:
                if number < FEWEST_ROUNDS or self._spent_s[name] <= self._budget_s:
                    start = own_seconds()
                    yield number, name
                    self._spent_s[name] += own_seconds() - start


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A subject that gets no samples, and why."""

    subject: str
    error: Exception


def interleaved(
    probe: ModuleType, subjects: dict[str, Subject], host: Host, settings: RoundSettings
) -> Iterator[Begin | Failed | Measurement]:
    """Time every subject with a paired probe: warm-up one after the other, then rounds of all."""
    timed = {
        name: replace(subject, timer=Timer(subject=subject), state={})
        for name, subject in subjects.items()
    }
    measure = applied(probe, host)
    for name, subject in list(timed.items()):
        yield Begin(name)
        try:
            for measurement in warm_up(subject, measure, settings.warmup):
                yield msgspec.structs.replace(measurement, subject=name)
        except Exception as error:
            del timed[name]
            yield Failed(subject=name, error=error)
    if not timed:
        return
    device = next(iter(timed.values())).device
    telemetry = Telemetry(host, device)
    samples: dict[str, list[list[Measurement]]] = {name: [] for name in timed}
    turns = Turns(timed, rounds=settings.rounds, budget_s=settings.budget_s)
    round_number = -1
    for number, name in turns:
        if number > round_number:
            round_number, change = number, drawn()
            telemetry.read()
        yield Begin(name)
        try:
            with timed[name].framework.annotated(f"{name} round {number}", device):
                samples[name].append(sampled(timed[name], measure, change))
        except Exception as error:
            turns.drop(name)
            del samples[name]
            yield Failed(subject=name, error=error)
    for name, rounds in samples.items():
        for measurement in gathered(rounds):
            yield msgspec.structs.replace(measurement, subject=name)
    if samples:
        metric = next(iter(samples.values()))[0][0].metric
        for reading in telemetry.measurements():
            yield msgspec.structs.replace(
                reading, subject=device, metric=f"{metric}.{reading.metric}"
            )


def applied(probe: ModuleType, host: Host) -> Measure:
    """The probe as a function of a subject."""
    return lambda subject: apply_probe(probe, subject, subject.workload, host)


def sampled(subject: Subject, measure: Measure, change: InputChange) -> list[Measurement]:
    """Measure the subject once, on inputs of its own, of which its timer knows how they were made;
    raises InputsChanged."""
    subject.timer.change = change
    renewed = subject.renewed(change)
    before = checksums(renewed)
    with guard.refusing():
        measurements = measure(renewed)
    refuse_changes(renewed, before)
    return measurements


def warm_up(subject: Subject, measure: Measure, least: int) -> Iterator[Measurement]:
    """Make at least that many calls, until two windows of them agree; the first, which may compile,
    is a metric of its own."""
    subject.framework.empty_cache(subject.device)
    before = checksums(subject)
    calls: list[Measurement] = []
    try:
        with subject.framework.annotated(f"{subject.name} warm-up", subject.device):
            while not _is_warm([call.samples[0] for call in calls], least):
                first, *_ = sampled(subject, measure, drawn())
                calls.append(first)
    finally:
        refuse_changes(subject, before)
    samples, metric = [call.samples[0] for call in calls], calls[0].metric
    about = {"unit": "ms", "source": f"{calls[0].source}; not among the samples"}
    yield Measurement(metric=f"{metric}.first", value=samples[0], **about)
    yield Measurement(metric=f"{metric}.warmup", value=sum(samples), samples=samples, **about)


def _is_warm(samples: list[float], least: int) -> bool:
    count = len(samples)
    if count < _SHORTEST_WARMUP:
        return False
    if sum(samples[1:]) > _MOST_WARMUP_MS:
        return True
    if count < max(least, 2 * _WINDOW):
        return False
    last, before = median(samples[-_WINDOW:]), median(samples[-2 * _WINDOW : -_WINDOW])
    return abs(last / before - 1) < STABLE if before else True


def checksums(subject: Subject) -> list[int]:
    """Checksums of the inputs as they are now."""
    return [subject.framework.checksum(array) for array in subject.inputs]


def refuse_changes(subject: Subject, before: list[int]) -> None:
    """Raise InputsChanged, with the inputs restored for others, where they are not as before."""
    if checksums(subject) != before:
        subject.restore()
        raise InputsChanged("it writes into its inputs; inputs must stay as they were")


def gathered(rounds: list[list[Measurement]]) -> Iterator[Measurement]:
    """One measurement per metric with the samples of all rounds; its value is their median."""
    for same_metric in zip(*rounds, strict=True):
        samples = [sample for measurement in same_metric for sample in measurement.samples]
        yield msgspec.structs.replace(same_metric[0], samples=samples, value=median(samples))
