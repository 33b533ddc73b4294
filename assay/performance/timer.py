"""One timed piece of work: caches first, then the clock, then a look at what came out.

For timing, inputs are changed anew for each round (assay/subjects/change.py). An answer that was
made before the call, or is not finished when the clock stops, is not that of these inputs. Which
calls are looked at, and where, is drawn by the system once they are over. What they gave is taken
before anything else waits for the device, so work that still goes on when the clock stops shows as
a wrong answer.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from os import urandom
from typing import Any

import numpy as np

from assay.records.schema import Measurement
from assay.subjects.change import InputChange
from assay.subjects.contract import Subject
from assay.subjects.outcome import WrongAnswer

LOOKED_AT = 64  # of 256 timed calls, drawn at random, and the first: looking costs time too
KEYS_LOOKED_AT = 128  # of 256 of these, and the first, also where a right value takes long
_OF_KEYS = frozenset(("dk", "dv"))
_urandom = urandom  # bound before any code of a user's is loaded


@dataclass(kw_only=True)
class Timer:
    """Times work of one subject. `change` is what this round's inputs were made with."""

    subject: Subject
    change: InputChange = field(init=False)
    _clock: Any = field(init=False)
    _flush: Callable[[], str] = field(init=False)
    _flushed: str = ""
    _looked: bool = False

    def __post_init__(self) -> None:
        framework, device = self.subject.framework, self.subject.device
        self._clock, self._flush = framework.clock(device), framework.flusher(device)

    def time(self, work: Callable[[], Any], *, gives: tuple[str, ...]) -> float:
        """Milliseconds that `work` takes; it returns an array, or one for each name in `gives`.

        Raises WrongAnswer where one of them is not what it must be.
        """
        self._flushed = self._flush()
        elapsed_ms, result = self._clock.time(work)
        arrays = result if len(gives) > 1 else (result,)
        named = dict(zip(gives, arrays, strict=True))
        if not self._looked or _urandom(1)[0] < LOOKED_AT:
            self._look(named, keys=not self._looked or _urandom(1)[0] < KEYS_LOOKED_AT)
            self._looked = True
        else:
            self._refuse_malformed(named)
        return elapsed_ms

    def measurements(self, metric: str, elapsed_ms: float) -> list[Measurement]:
        """One sample, and one of the time to launch it, where the clock tells that apart."""
        samples = [self._sample(metric, elapsed_ms, f"{self._clock.source}; {self._flushed}")]
        if self._clock.launch_ms is not None:
            source = "host clock around the call, which returns before the device is done"
            samples.append(self._sample(f"{metric}.launch", self._clock.launch_ms, source))
        return samples

    def _refuse_malformed(self, arrays: dict[str, Any]) -> None:
        """Raise WrongAnswer for what is no plain array of the shape and dtype it must have."""
        for tensor, array in arrays.items():
            if problem := self.subject.form_problem(tensor, array):
                raise WrongAnswer(f"a timed call gave a wrong result: {problem}")

    def _look(self, arrays: dict[str, Any], *, keys: bool) -> None:
        """Raise WrongAnswer unless each array is right where some of its values are known."""
        self._refuse_malformed(arrays)
        keys &= not arrays.keys().isdisjoint(_OF_KEYS)
        places = self.subject.places(self.change, keys=keys)
        seen = {
            tensor: self.subject.numpy(array, places[tensor])  # at once: it may not be finished
            for tensor, array in arrays.items()
            if tensor in places
        }
        spots = self.subject.spots(self.change, keys=keys)
        for tensor, actual in seen.items():
            right, allowed = getattr(spots.result, tensor), spots.allowed[tensor].largest
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
