"""Errors that refuse a request, and the exit codes of the command line.

0 holds, 1 measured and does not hold, 2 bad input, 3 cannot run here.
"""

from collections.abc import Iterable

HOLDS = 0
DOES_NOT_HOLD = 1
BAD_INPUT = 2
CANNOT_RUN_HERE = 3
INTERNAL_ERROR = 70
INTERRUPTED = 130


class BadInput(ValueError):
    """Input that cannot be read or loaded; the message says what to do."""

    exit_code = BAD_INPUT


class CannotRunHere(RuntimeError):
    """The request is sound, but this machine, now, cannot carry it out."""

    exit_code = CANNOT_RUN_HERE


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question about the known name that is nearest to a wrong one; empty where none is near."""
    import difflib

    folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1)
    return f"did you mean {folded[close[0]]}?" if close else ""


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """A sentence about a name that is not among those known: the nearest, or all of them."""
    known = list(known)
    hint = did_you_mean(name, known) or f"there are {', '.join(known) or 'none'}."
    return f"there is no {what} {name!r}; {hint}"
