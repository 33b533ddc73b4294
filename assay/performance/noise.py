"""An implementation against itself, many times over: what a comparison says where there is nothing
to find, and whether it finds a slowdown that was planted.

All samples are kept; assay/laws/noise.py says what they mean.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import msgspec

from assay import plugins
from assay.host import Host
from assay.laws.noise import AA, PLANTED, ROUNDS, SHARE
from assay.performance import rounds
from assay.performance.timer import Timer
from assay.records.schema import Measurement
from assay.subjects.change import drawn
from assay.subjects.sequence import SequenceSubject

PROBE = "latency"


@dataclass(frozen=True, kw_only=True)
class NoiseSettings:
    """Numbers of comparisons and of rounds in each; `share` is the planted slow-down."""

    comparisons: int
    rounds: int
    warmup: int
    share: float


def measure(subject: SequenceSubject, host: Host, settings: NoiseSettings) -> Iterator[Measurement]:
    """All samples of the comparisons with itself, then of those with the slowed-down copy."""
    sample = rounds.applied(plugins.load(plugins.find("probes", PROBE)), host)
    subject = subject.compiled()
    first = replace(subject, timer=Timer(subject=subject))
    warm = list(rounds.warm_up(first, sample, settings.warmup))
    yield from warm
    usual_ms = median(warm[-1].samples[1:])
    wait_ms = settings.share * usual_ms
    slowed = replace(first, function=_slowed(subject, wait_ms))
    yield Measurement(metric=ROUNDS, value=settings.rounds, unit="count")
    source = f"{wait_ms:.4g} ms beside {usual_ms:.4g} ms, inside what is timed"
    yield Measurement(metric=SHARE, value=settings.share, unit="ratio", source=source)
    for metrics, second, comparisons in (
        (AA, first, settings.comparisons),
        (PLANTED, slowed, settings.comparisons // 2),
    ):
        sides = dict(zip(metrics, (first, second), strict=True))
        yield from _side_by_side(sides, sample, comparisons * settings.rounds)


def _side_by_side(
    sides: dict[str, SequenceSubject], sample: rounds.Measure, count: int
) -> Iterator[Measurement]:
    """All samples of each side, by metric, from rounds of two."""
    samples: dict[str, list[list[Measurement]]] = {metric: [] for metric in sides}
    changes = [drawn() for _ in range(count)]
    for number, metric in rounds.Turns(sides, rounds=count):
        latency, *_ = rounds.sampled(sides[metric], sample, changes[number])
        samples[metric].append([latency])
    for metric, measurements in samples.items():
        (gathered,) = rounds.gathered(measurements)
        yield msgspec.structs.replace(gathered, metric=metric)


def _slowed(subject: SequenceSubject, wait_ms: float) -> Callable[..., Any]:
    """The same function, which takes longer."""
    wait = subject.framework.delay(subject.device, wait_ms)

    def function(*inputs: Any, **options: Any) -> Any:
        wait()
        return subject.function(*inputs, **options)

    return function
