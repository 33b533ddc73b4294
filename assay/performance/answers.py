"""Whether a timed call gave the right answer, from a few rows of it.

For timing, v is multiplied by a power of two, drawn anew for each round: the output and the
gradients of q and k then change by exactly that factor. An answer that was made before the call, or
is not finished when the clock stops, does not know the factor and is found out.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from assay.correctness import judge
from assay.subjects import sampling
from assay.subjects.outcome import WrongAnswer
from assay.subjects.sequence import SequenceSubject
from assay.workloads.workload import Workload

FACTORS = (-1.0, 2.0, -2.0, 4.0, -4.0)
_SCALED = ("out", "dq")  # of those that are looked at
_PAIRS = 3
_ROWS = 4


class Answers:
    """What a workload's timed calls must give, on few rows."""

    def __init__(self, workload: Workload) -> None:
        self._right = sampling.sample_rows(workload, pairs=_PAIRS, rows=_ROWS)

    @classmethod
    @lru_cache(maxsize=1)
    def of(cls, workload: Workload) -> "Answers":
        """Made once for the workload of a cell."""
        return cls(workload)

    def hold(self, call: SequenceSubject, arrays: dict[str, Any], factor: float) -> None:
        """Raise WrongAnswer unless each of the arrays that can be judged is right."""
        for tensor in (name for name in arrays if name in _SCALED):
            array = arrays[tensor]
            if problem := judge.wrong_form(tensor, array, call):
                raise WrongAnswer(f"a timed call gave a wrong result: {problem}")
            actual = call.numpy(array, self._right.index[tensor])
            right = factor * getattr(self._right.result, tensor)
            allowed = abs(factor) * self._right.allowed[tensor].largest
            with np.errstate(invalid="ignore"):
                wrong = ~(np.abs(actual - right) <= allowed)
            if wrong.any():
                raise WrongAnswer(
                    f"a timed call gave a wrong {tensor}, though an untimed one was right: its "
                    "answer was made beforehand, or it was not finished when the clock stopped"
                )
