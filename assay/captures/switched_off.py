"""Captures that are switched off: every call that a program makes of one, with no effect.

The model is not hooked and no store is made, so that a line of capture may stay in a program.
"""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from assay.captures.manifest import RunSummary
from assay.errors import BadInput

VARIABLE = "ASSAY_CAPTURE"


def switched_on() -> bool:
    """Read ASSAY_CAPTURE: 0 is off, 1 or nothing is on."""
    value = os.environ.get(VARIABLE, "1")
    if value not in ("0", "1"):
        raise BadInput(f"{VARIABLE}={value!r}: 0 switches capture off, 1 on")
    return value == "1"


class NoTorchCapture:
    """Stands for TorchCapture."""

    run = ""
    step: Any = 0

    def __enter__(self) -> "NoTorchCapture":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def report(self) -> RunSummary:
        """Return that nothing was captured."""
        return RunSummary(run=self.run, rank=0, records=0, bytes=0, dropped={})


class NoFlaxCapture(NoTorchCapture):
    """Stands for FlaxCapture."""

    @contextmanager
    def step(self, number: Any) -> Iterator[None]:
        yield

    @contextmanager
    def paused(self) -> Iterator[None]:
        yield

    def collect(self, function: Callable) -> Callable:
        """Return a function that returns no calls beside its result."""

        @functools.wraps(function)
        def collecting(*args: Any, **kwargs: Any) -> tuple[Any, tuple[()]]:
            return function(*args, **kwargs), ()

        return collecting

    def save(self, collected: Any, *, step: int) -> None:
        """Store nothing."""
