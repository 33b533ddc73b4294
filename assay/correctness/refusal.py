"""Attempts at a call that may be refused, and the words of a clean refusal.

A clean refusal is an assertion, a ValueError, a NotImplementedError, an assertion of Triton's
compiler or of its interpreter, resources that a GPU lacks, or the word of `supports`; also that
Triton can neither compile nor interpret here.
"""

import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from assay.attention import interpreted
from assay.instruments import progress
from assay.instruments.own_time import own_seconds
from assay.records.foreign_text import first_line
from assay.subjects.outcome import Unsupported, device_lost
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec

_CLEAN = (AssertionError, ValueError, NotImplementedError)
_CLEAN_OF_TRITON = ("CompileTimeAssertionFailure", "OutOfResources")  # it need not be installed
_CHEAP_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of one attempted call: refused cleanly or not, and its cost."""

    text: str | None  # of a clean refusal; None where there was none
    seconds: float
    backward: bool = False  # whether the backward was called too
    compiled: int = 0  # programs of a framework that says so


def outcome(
    bind: Callable[[WorkloadSpec], SequenceSubject],
    spec: WorkloadSpec,
    *,
    backward: bool | None = None,
) -> Outcome:
    """Call it. No text where the call returns, or raises anything but a clean refusal.

    Unless told, the backward is asked too where the forward is cheap: compiling it takes longer
    than it tells. An output of another form is no refusal, and what a framework says to its
    gradient is none.
    """
    progress.watch_compilers()
    start, compiled = own_seconds(), progress.compiled()
    text = None
    try:
        call = bind(spec)
        out = call()
        call.synchronize()
        if backward is None:
            cheap = own_seconds() - start < _CHEAP_S
            backward = cheap and call.has_backward and not call.form_problem("out", out)
        if backward:
            call.gradients()
            call.synchronize()
    except Unsupported as refusal:
        text = str(refusal)
    except Exception as error:
        if device_lost(error):
            raise
        text = refusal_text(error)
    return Outcome(
        text=text,
        seconds=own_seconds() - start,
        backward=bool(backward),
        compiled=progress.compiled() - compiled,
    )


def refusal_text(error: Exception) -> str | None:
    """The words of a clean refusal; None for an error of any other kind."""
    if words := interpreted.refusal_of(error):
        return words
    if type(error).__name__ in _CLEAN_OF_TRITON:  # the place in the kernel comes before the words
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[-1].strip() if lines else ''}"
    if type(error).__name__ == "InterpreterError":  # what Triton's language asserts, as a string
        asserted = re.search(r"AssertionError\((['\"])(.*)\1\)", str(error))
        return f"AssertionError: {asserted[2]}" if asserted else None
    if not isinstance(error, _CLEAN):
        return None
    text = first_line(error, 200)
    if not text:  # a bare assertion says nothing but its own line
        text = (traceback.extract_tb(error.__traceback__)[-1].line or "").strip()
    return f"{type(error).__name__}: {text}"
