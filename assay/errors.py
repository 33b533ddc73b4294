"""Errors that refuse a request, and the exit codes of the command line.

0 holds, 1 measured and does not hold, 2 bad input, 3 cannot run here.
"""

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
