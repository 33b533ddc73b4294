"""One timed piece of work: caches first, then the clock, then a look at what came out.

For timing, the last input is multiplied by a power of two, drawn anew for each round: the answer
changes by exactly that factor. An answer that was made before the call, or is not finished when the
clock stops, does not know the factor. It is taken before anything else waits for the device, so
work that still goes on when the clock stops shows as a wrong answer.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.records.schema import Measurement
from assay.subjects.contract import Expected, Subject
from assay.subjects.outcome import WrongAnswer

FACTORS = (-1.0, 2.0, -2.0, 4.0, -4.0)
_DRAW = random.SystemRandom()  # which no subject can seed
LOOKED_AT = 0.25  # of the timed calls, drawn at random, and the first: looking costs time too


@dataclass(kw_only=True)
class Timer:
    """Times work of one subject. `factor` is what this round's values were multiplied by."""

    subject: Subject
    factor: float = 1.0
    _clock: Any = field(init=False)
    _flush: Callable[[], str] = field(init=False)
    _spots: Expected = field(init=False)
    _flushed: str = ""
    _looked: bool = False

    def __post_init__(self) -> None:
        framework, device = self.subject.framework, self.subject.device
        self._clock, self._flush = framework.clock(device), framework.flusher(device)
        self._spots = self.subject.spots()

    def time(self, work: Callable[[], Any], *, gives: tuple[str, ...]) -> float:
        """Milliseconds that `work` takes; it returns an array, or one for each name in `gives`.

        Raises WrongAnswer where one of them is not what it must be.
        """
        self._flushed = self._flush()
        elapsed_ms, result = self._clock.time(work)
        if not self._looked or _DRAW.random() < LOOKED_AT:
            arrays = result if len(gives) > 1 else (result,)
            self._look(dict(zip(gives, arrays, strict=True)))
            self._looked = True
        return elapsed_ms

    def measurements(self, metric: str, elapsed_ms: float) -> list[Measurement]:
        """One sample, and one of the time to launch it, where the clock tells that apart."""
        samples = [self._sample(metric, elapsed_ms, f"{self._clock.source}; {self._flushed}")]
        if self._clock.launch_ms is not None:
            source = "host clock around the call, which returns before the device is done"
            samples.append(self._sample(f"{metric}.launch", self._clock.launch_ms, source))
        return samples

    def _look(self, arrays: dict[str, Any]) -> None:
        """Raise WrongAnswer unless each array of which some values are known is right there."""
        for tensor, array in arrays.items():
            if not self._spots.has(tensor) or tensor not in self._spots.index:
                continue
            if problem := self.subject.form_problem(tensor, array):
                raise WrongAnswer(f"a timed call gave a wrong result: {problem}")
            actual = self.subject.numpy(array, self._spots.index[tensor])
            right = self.factor * getattr(self._spots.result, tensor)
            allowed = abs(self.factor) * self._spots.allowed[tensor].largest
            with np.errstate(invalid="ignore"):
                wrong = ~(np.abs(actual - right) <= allowed)
            if wrong.any():
                raise WrongAnswer(
                    f"a timed call gave a wrong {tensor}, though an untimed one was right: its "
                    "answer was made beforehand, or it was not finished when the clock stopped"
                )

    def _sample(self, metric: str, elapsed_ms: float, source: str) -> Measurement:
        return Measurement(
            metric=metric,
            value=elapsed_ms,
            unit="ms",
            samples=[elapsed_ms],
            level=self.subject.level,
            source=source,
        )
