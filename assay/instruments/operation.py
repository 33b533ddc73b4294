"""One operation of a call: a kernel, an operator, an instruction of a compiled program."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NAMED = 5  # the longest ones
_NAME_LENGTH = 120  # of a CUTLASS template's several thousand


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Name of an operation, and its own duration; None where that is not known.

    One that only `encloses` others is known by name and not counted.
    """

    name: str
    duration_us: float | None = None
    encloses: bool = False


def counted(ran: Sequence[Operation]) -> list[Operation]:
    """Those that do the work themselves."""
    return [operation for operation in ran if not operation.encloses]


def in_words(ran: Sequence[Operation]) -> str:
    """The names that take longest, with their share of the time or their number."""
    totals: dict[str, float] = {}
    timed = all(operation.duration_us is not None for operation in ran)
    for operation in ran:
        weight = operation.duration_us if timed else 1
        totals[operation.name] = totals.get(operation.name, 0.0) + (weight or 0.0)
    ordered = sorted(totals.items(), key=lambda item: -item[1])
    whole = sum(totals.values()) or 1.0
    texts = [
        f"{_short(name)} {total / whole:.0%}" if timed else f"{_short(name)} x{total:.0f}"
        for name, total in ordered[:_NAMED]
    ]
    others = len(ordered) - _NAMED
    return ", ".join(texts) + (f", and {others} more" if others > 0 else "")


def _short(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH else f"{name[:_NAME_LENGTH]}..."


def backend_problem(pattern: str | None, ran: Sequence[Operation]) -> str | None:
    """Return the problem where a declared backend did not run, else None."""
    if pattern is None or any(re.search(pattern, o.name, re.IGNORECASE) for o in ran):
        return None
    return f"it declares {pattern!r}, but what ran is {in_words(counted(ran)) or 'nothing'}"
