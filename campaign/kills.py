"""Studies killed by SIGKILL at random moments and resumed, by the thousand.

Nothing may be lost, doubled or half-shown, no finished cell may run again, and 2 s after a kill no
process of the study may live. Studies take turns: of one in two all of the command is killed, at
its start, in its cells or in its report; of the other any of its processes, while a reader looks.
"""

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from campaign.formats import add_test_modules
from campaign.spread import Effort
from campaign.studies import LEFT_S, run_studies, undisturbed_walk

STUDY_KILLS = 10


def run(effort: Effort, emit: Callable[[dict[str, Any]], None]) -> bool:
    """Kill until so many kills are done or the time is spent; True where everything held."""
    add_test_modules()
    from killed_study import idle_life_s, kill_and_finish
    from killed_walk import kill_often

    with tempfile.TemporaryDirectory(prefix="campaign-") as root:
        life_s = idle_life_s(Path(root))
    undisturbed = undisturbed_walk()
    count, each = shares(effort)

    def killed(folder: Path, number: int, draw: random.Random) -> Counter[str]:
        if number % 2:
            return kill_often(folder, each, draw, LEFT_S, undisturbed).killed
        return kill_and_finish(folder, each, draw, life_s, LEFT_S)

    return run_studies(
        "kills", killed, effort=replace(effort, count=count), options=f"--kills {each}", emit=emit
    )


def shares(effort: Effort, study_kills: int = STUDY_KILLS) -> tuple[int | None, int]:
    """Studies, and kills of each of them."""
    if effort.kills is None:
        return effort.count, study_kills
    studies = effort.count or -(-effort.kills // study_kills)
    return studies, -(-effort.kills // studies)
