"""One timed piece of work: caches first, then the clock, then a look at what came out.

The answer of a timed call is taken before anything else waits for the device, so work that is still
going on when the clock stops shows as a wrong answer.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from assay.performance.answers import Answers
from assay.records.schema import Measurement
from assay.subjects.sequence import SequenceSubject

LOOKED_AT = 0.25  # of the timed calls, drawn at random, and the first: looking costs time too


@dataclass(kw_only=True)
class Timer:
    """Times work for one subject. `answers` says what is right; `factor` is what this round's
    values were multiplied by, which no implementation can know beforehand."""

    call: SequenceSubject
    answers: Answers
    factor: float = 1.0
    _clock: Any = field(init=False)
    _flush: Callable[[], str] = field(init=False)
    _flushed: str = ""
    _looked: bool = False

    def __post_init__(self) -> None:
        framework, device = self.call.framework, self.call.device
        self._clock, self._flush = framework.clock(device), framework.flusher(device)

    def time(self, work: Callable[[], Any], *, gives: tuple[str, ...]) -> float:
        """Milliseconds that `work` takes; it returns an array, or one for each name in `gives`.

        Raises WrongAnswer where one of them is not what it must be.
        """
        self._flushed = self._flush()
        elapsed_ms, result = self._clock.time(work)
        if not self._looked or random.random() < LOOKED_AT:
            arrays = result if len(gives) > 1 else (result,)
            self.answers.hold(self.call, dict(zip(gives, arrays, strict=True)), self.factor)
            self._looked = True
        return elapsed_ms

    def measurements(self, metric: str, elapsed_ms: float) -> list[Measurement]:
        """One sample, and one of what the host took to launch it, where that is told apart."""
        source = f"{self._clock.source}; {self._flushed}"
        found = [_sample(metric, elapsed_ms, source)]
        if self._clock.launch_ms is not None:
            told = "host clock around the call, which returns before the device is done"
            found.append(_sample(f"{metric}.launch", self._clock.launch_ms, told))
        return found


def _sample(metric: str, elapsed_ms: float, source: str) -> Measurement:
    return Measurement(
        metric=metric,
        value=elapsed_ms,
        unit="ms",
        samples=[elapsed_ms],
        level="kernel",
        source=source,
    )
