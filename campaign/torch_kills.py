"""Studies with torch killed by SIGKILL and resumed: bench, models, and a training that streams.

As in `kills` any process is the target, at any moment, while a reader looks. A training must end
with the losses and weights of one that nobody disturbed, to the bit.
"""

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from campaign.formats import add_test_modules
from campaign.kills import shares
from campaign.spread import Effort
from campaign.studies import LEFT_S, run_studies


def run(effort: Effort, emit: Callable[[dict[str, Any]], None]) -> bool:
    """Kill until so many kills are done or the time is spent; True where everything held."""
    add_test_modules()
    from killed_training import KilledTraining, arguments, content
    from killed_walk import kill_often
    from study_process import StudyProcess

    with tempfile.TemporaryDirectory(prefix="campaign-") as root:
        quiet = StudyProcess(folder=Path(root))
        if quiet.finish(quiet.start(*arguments(quiet))) != 0:
            raise RuntimeError(f"a study fails without any kill: {quiet.stderr[-500:]}")
        undisturbed = content(quiet)
    count, each = shares(effort)

    def killed(folder: Path, number: int, draw: random.Random) -> Counter[str]:
        return kill_often(folder, each, draw, LEFT_S, undisturbed, KilledTraining).killed

    return run_studies(
        "torch_kills", killed, effort=replace(effort, count=count), options=f"--kills {each}",
        emit=emit,
    )  # fmt: skip
