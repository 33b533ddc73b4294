"""An implementation against itself, many times over: what a comparison says where there is nothing
to find, and whether it finds a slowdown that was planted.

The samples are all kept; assay/laws/noise.py says what they mean.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from types import ModuleType
from typing import Any

import msgspec

from assay import plugins
from assay.host import Host
from assay.laws.noise import AA, PLANTED, ROUNDS, SHARE
from assay.performance import rounds
from assay.performance.answers import FACTORS, Answers
from assay.performance.timing import Timer
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject

PROBE = "latency"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many comparisons of how many rounds; `share` is how much slower the planted one is."""

    comparisons: int
    rounds: int
    warmup: int
    share: float


def measure(call: SequenceSubject, host: Host, plan: Plan) -> Iterator[Measurement]:
    """All samples of the comparisons with itself, then of those with the slowed-down copy."""
    probe = plugins.load(plugins.find("probes", PROBE))
    answers = Answers.of(call.workload)
    first = replace(call, timer=Timer(call=call, answers=answers))
    warm = list(rounds.warm_up(first, _measure(probe, host), random.SystemRandom(), plan.warmup))
    yield from warm
    usual_ms = median(warm[-1].samples[1:])
    wait_ms = plan.share * usual_ms
    slowed = replace(first, function=_slowed(call, wait_ms))
    yield Measurement(metric=ROUNDS, value=plan.rounds, unit="count")
    source = f"{wait_ms:.4g} ms beside {usual_ms:.4g} ms, inside what is timed"
    yield Measurement(metric=SHARE, value=plan.share, unit="ratio", source=source)
    for names, second, count in (
        (AA, first, plan.comparisons),
        (PLANTED, slowed, plan.comparisons // 2),
    ):
        samples = _side_by_side(first, second, _measure(probe, host), count * plan.rounds)
        for name, taken in zip(names, samples, strict=True):
            (all_of_it,) = rounds.gathered([[one] for one in taken])
            yield msgspec.structs.replace(all_of_it, metric=name)


def _measure(probe: ModuleType, host: Host) -> rounds.Measure:
    return lambda call: rounds.measured(probe.measure(call, call.workload, host))


def _side_by_side(
    first: SequenceSubject, second: SequenceSubject, measure: rounds.Measure, count: int
) -> tuple[list[Measurement], list[Measurement]]:
    """Rounds of two, whose order alternates."""
    generator = random.SystemRandom()
    taken: tuple[list[Measurement], list[Measurement]] = ([], [])
    for number in range(count):
        factor = generator.choice(FACTORS)
        for place in (0, 1) if number % 2 == 0 else (1, 0):
            call = rounds.turned((first, second)[place], factor)
            taken[place].append(measure(call)[0])
    return taken


def _slowed(call: SequenceSubject, wait_ms: float) -> Callable[..., Any]:
    """The same function, which takes longer."""
    wait = call.framework.delay(call.device, wait_ms)

    def function(*inputs: Any, **options: Any) -> Any:
        wait()
        return call.function(*inputs, **options)

    return function
