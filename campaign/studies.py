"""Studies that something happens to, each in a folder of its own, side by side.

A trial disturbs one study and asserts what must hold of it; what did not hold is a finding, with
the command that repeats it. No process of a study may live when its trial is over.
"""

import random
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaign.formats import add_test_modules
from campaign.spread import Effort, Notes, spread

LEFT_S = 2.0  # that a process may live on
_MANY = 10_000  # more studies than any time allows

# From an empty place, a number and its choices to the places or kinds that were met.
Trial = Callable[[Path, int, random.Random], Counter[str]]


@dataclass(frozen=True, kw_only=True)
class StudyEnd:
    """What happened to a study, or what did not hold of it."""

    met: Counter[str]
    reason: str = ""


def run_studies(
    part: str,
    trial: Trial,
    *,
    effort: Effort,
    emit: Callable[[dict[str, Any]], None],
    options: str = "",
) -> bool:
    """Try studies until so many are done or the time is spent; True where everything held.

    `options` are those of the command line with which a single study is repeated.
    """
    notes, met, findings, studies = Notes(part), Counter[str](), 0, 0
    deadline = notes.start + effort.seconds if effort.count is None else float("inf")
    with tempfile.TemporaryDirectory(prefix="campaign-") as root:

        def study(number: int) -> StudyEnd | None:
            if time.monotonic() > deadline:
                return None
            return _tried(trial, Path(root) / str(number), number, effort.seed)

        numbers = range(effort.first, effort.first + (effort.count or _MANY))
        for number, end in zip(numbers, spread(study, numbers, effort.processes), strict=True):
            if end is None:
                continue
            studies, met = studies + 1, met + end.met
            if end.reason:
                findings += 1
                repeat = f"--seed {effort.seed} --first {number} --studies 1 {options}".strip()
                emit(
                    {"part": part, "finding": "study", "study": number, "reason": end.reason,
                     "repeat": f"python -m campaign {part} {repeat}"}
                )  # fmt: skip
            notes.note(f"{studies:,} studies, {met.total():,} times disturbed, {findings} findings")
    emit(
        {"part": part, "seed": effort.seed, "studies": studies, "disturbed": met.total(),
         "met": dict(sorted(met.items())), "seconds": notes.seconds,
         "processes": effort.processes, "findings": findings}
    )  # fmt: skip
    return not findings


def undisturbed_walk() -> list[Any]:
    """Content of a study whose cells stream, and which nothing happens to."""
    from killed_walk import STAGE, content
    from study_process import StudyProcess

    with tempfile.TemporaryDirectory(prefix="campaign-") as root:
        quiet = StudyProcess(folder=Path(root))
        if quiet.finish(quiet.start(*quiet.run_arguments(STAGE))) != 0:
            raise RuntimeError(f"a study fails without any mishap: {quiet.stderr[-500:]}")
        return content(quiet)


def _tried(trial: Trial, folder: Path, number: int, seed: int) -> StudyEnd:
    add_test_modules()
    from study_process import end_all, processes_below, wait_until

    try:
        met = trial(folder, number, random.Random(f"{seed} {number}"))
        wait_until(lambda: not processes_below(folder), "the end of all processes", LEFT_S)
        return StudyEnd(met=met)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error}"
        return StudyEnd(met=Counter(), reason=reason[:2000])
    finally:
        end_all(folder)
        shutil.rmtree(folder, ignore_errors=True)
