"""A kernel on one case, in a process that has made no other call: right there, or wrong too."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from assay.correctness import judge
from assay.subjects import forked
from assay.subjects.sequence import SequenceSubject
from assay.workloads.spec import WorkloadSpec

_PATIENCE_S = 120.0


def right_in_fresh_process(call: SequenceSubject, spec: WorkloadSpec) -> bool | None:
    """Return whether the first call of a process is right; None where it gave no answer."""
    name = "assay.correctness.fresh_process:answer"
    answers = forked.ask(name, call, spec, timeout_s=_PATIENCE_S)
    return answers.values.get("right") if answers else None


def answer(request: Mapping[str, Any]) -> Iterator[dict[str, bool]]:
    """Make one call, and yield whether it is right."""
    try:
        right = judge.is_right(forked.bound(request))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        right = False
    yield {"right": right}
