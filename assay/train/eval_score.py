"""A score that an eval gives a model: a value with its standard error, an entry for each item."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import stdev
from typing import Any, Literal

FEW = "a single item has no standard error"


@dataclass(frozen=True, kw_only=True)
class EvalScore:
    """A score of a model on some data. An unknown value or error is None with its reason."""

    name: str  # after `eval.` and the label in the metric
    value: float | None
    unit: str
    error: float | None = None  # standard error of the value
    why_no_error: str | None = None
    samples: Sequence[float] = ()  # one for each item, in the order of the data
    items: int
    digest: str  # of the data that was scored
    better: Literal["higher", "lower"] | None
    source: str  # how the value is made of the items, in words
    failure: str | None = None  # why there is no value to build on
    details: dict[str, Any] = field(default_factory=dict)


def standard_error(samples: Sequence[float]) -> float | None:
    """The standard error of a mean of independent items; None of fewer than two."""
    return stdev(samples) / sqrt(len(samples)) if len(samples) > 1 else None
