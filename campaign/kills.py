"""Studies killed by SIGKILL at random moments and resumed, by the thousand.

Nothing may be lost, doubled or half-shown, no finished cell may run again, and 2 s after a kill no
process of the study may live. Studies take turns: of one in two all of the command is killed, at
its start, in its cells or in its report; of the other any of its processes, while a reader looks.
"""

import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaign.formats import add_test_modules

STUDY_KILLS = 10
LEFT_S = 2.0
_SIDE_BY_SIDE = 2


@dataclass(kw_only=True)
class KillCounts:
    """Kills and studies so far, by the place that they met; and what did not hold."""

    studies: int = 0
    met: Counter[str] = field(default_factory=Counter)
    findings: list[dict[str, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, met: Counter[str]) -> None:
        with self.lock:
            self.studies += 1
            self.met += met


def run(
    *, seed: int, seconds: float, kills: int, first: int, emit: Callable[[dict[str, Any]], None]
) -> bool:
    """Kill until so many kills are done or the time is spent; True where everything held."""
    add_test_modules()
    from killed_study import idle_life_s
    from killed_walk import STAGE, content
    from study_process import StudyProcess

    counts, start = KillCounts(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="campaign-") as root:
        life_s = idle_life_s(Path(root))
        quiet = StudyProcess(folder=Path(root) / "quiet")
        quiet.folder.mkdir()
        if quiet.run(STAGE) != 0:
            raise RuntimeError(f"a study fails without any kill: {quiet.stderr[-500:]}")
        undisturbed = content(quiet)

        def study(number: int) -> None:
            if time.monotonic() - start < seconds:
                _killed(Path(root) / str(number), number, seed, life_s, undisturbed, counts)

        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            list(pool.map(study, range(first, first + -(-kills // STUDY_KILLS))))
    for finding in counts.findings:
        emit(finding)
    emit(
        {
            "part": "kills",
            "seed": seed,
            "studies": counts.studies,
            "kills": counts.met.total(),
            "met": dict(counts.met),
            "seconds": round(time.monotonic() - start, 1),
            "findings": len(counts.findings),
        }
    )
    return not counts.findings


def _killed(
    folder: Path, number: int, seed: int, life_s: float, undisturbed: list, counts: KillCounts
) -> None:
    from killed_study import kill_and_finish
    from killed_walk import kill_often

    moments = random.Random(f"{seed} {number}")
    try:
        if number % 2:
            met = kill_often(folder, STUDY_KILLS, moments, LEFT_S, undisturbed).killed
        else:
            met = kill_and_finish(folder, STUDY_KILLS, moments, life_s)
        counts.add(Counter(met))
    except AssertionError as error:
        counts.findings.append(
            {
                "part": "kills",
                "finding": "kill",
                "study": number,
                "reason": str(error)[:2000],
                "repeat": f"{Path(sys.executable).name} -m campaign kills --seed {seed} "
                f"--first {number} --kills {STUDY_KILLS}",
            }
        )
