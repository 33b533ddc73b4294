"""Time to compile: a first forward call with empty compile caches, less a later one.

It is measured in a process of its own: in the others the caches of Triton, Inductor and XLA, which
are keyed by source, are kept from one cell and run to the next, and nothing is paid there.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from assay.host import Host
from assay.instruments.reading import Reading
from assay.records.schema import Measurement
from assay.subjects import forked
from assay.subjects.contract import Subject

INSTRUMENTS = ("clock",)
NEEDS = ("accuracy",)
_TIMEOUT_S = 600.0
_LATER = 3  # calls
_SOURCE = (
    "host clock: the first forward call of a process with empty compile caches, less the median "
    f"of {_LATER} later ones"
)


def measure(subject: Subject, workload: object, host: Host) -> list[Measurement]:
    """Milliseconds; null where nothing is compiled."""
    return [_read(subject).measurement("compile_ms", "ms")]


def _read(subject: Subject) -> Reading:
    if not hasattr(subject.framework, "keep_compiled_in"):
        return Reading(value=None, reason="its framework keeps nothing that it compiled")
    if not subject.framework.may_have_compiled():
        return Reading(value=None, reason="nothing was compiled: no compiler is loaded")
    answers = forked.ask(
        "assay.performance.probes.compile:answer",
        subject,
        subject.workload.spec,
        timeout_s=_TIMEOUT_S,
    )
    if answers is None:
        return Reading(value=None, reason="it was not loaded from a file another process can load")
    if "first_ms" not in answers.values:
        return Reading(value=None, reason=f"in a process of its own: {answers.ending}")
    if not answers.values["files"]:
        return Reading(value=None, reason="nothing was compiled: no cache was written to")
    return Reading(value=answers.values["first_ms"] - answers.values["later_ms"], source=_SOURCE)


def answer(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield both times and the number of files that compiling left behind."""
    with tempfile.TemporaryDirectory() as folder:
        call = forked.bound(request)
        call.framework.keep_compiled_in(folder)
        call.synchronize()
        first_ms, *later_ms = [_timed_ms(call) for _ in range(1 + _LATER)]
        files = sum(path.is_file() for path in Path(folder).rglob("*"))
        yield {"first_ms": first_ms, "later_ms": median(later_ms), "files": files}


def _timed_ms(call: Subject) -> float:
    start = time.perf_counter()
    kept = call()
    call.synchronize()
    elapsed_ms = (time.perf_counter() - start) * 1e3
    del kept
    return elapsed_ms
