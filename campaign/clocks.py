"""Studies whose wall clock is set forwards and backwards while they run, and between two starts.

Nobody may be blamed for it: no cell is a timeout, none takes less than no time, nothing is lost or
doubled, and a study that is killed goes on whatever the clock says. The clock is that of the study
alone (clock.c), which takes a C compiler to build.
"""

import random
import shutil
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from campaign.formats import ROOT, add_test_modules
from campaign.spread import Effort
from campaign.studies import LEFT_S, run_studies, undisturbed_walk

STEPS = 6
LONGEST_S = 300.0  # that a cell of half a second may take on a busy machine
_SECONDS = (5, 90, 3600, 86_400, 10 * 365 * 86_400)
_KILLS = 0.3  # of the steps end the study too


def run(effort: Effort, emit: Callable[[dict[str, Any]], None]) -> bool:
    """Set clocks until so many studies are done or the time is spent; True where all held."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        emit({"part": "clocks", "unavailable": "a clock of its own needs a C compiler"})
        return True
    add_test_modules()
    undisturbed = undisturbed_walk()
    with tempfile.TemporaryDirectory(prefix="campaign-") as root:
        library = Path(root) / "clock.so"
        build(compiler, library)

        def stepped(folder: Path, number: int, draw: random.Random) -> Counter[str]:
            return step_often(folder, draw, undisturbed, library)

        return run_studies("clocks", stepped, effort=effort, emit=emit)


def step_often(folder: Path, draw: random.Random, undisturbed: list, library: Path) -> Counter[str]:
    """Set the clock of a study again and again; return the steps by their direction."""
    from killed_walk import KilledWalk

    folder.mkdir()
    clock, met = folder / "clock", Counter[str]()
    set_clock(clock, 0.0)
    changes = {"LD_PRELOAD": str(library), "CAMPAIGN_CLOCK": str(clock)}
    walk = KilledWalk(folder / "study", draw, LEFT_S, changes)
    for _ in range(STEPS):
        if walk.process is None or walk.process.poll() is not None:
            if walk.is_finished():
                break
            walk.start()
        walk.wait()
        seconds = draw.choice(_SECONDS) * draw.choice((-1, 1))
        set_clock(clock, seconds)
        met["backwards" if seconds < 0 else "forwards"] += 1
        if draw.random() < _KILLS and walk.kill("group"):
            walk.kills["group"] += 1
    if walk.process.poll() is None:
        walk.study.finish(walk.process)
    walk.finish()
    walk.check(undisturbed)
    records = walk.study.records("walk")
    assert {record.status for record in records} == {"ok"}, "somebody was blamed"
    ends = [end.value for end in walk.study.ends("walk").values()]
    assert all(0 <= seconds < LONGEST_S for seconds in ends), f"cells took {ends} s"
    return met


def build(compiler: str, library: Path) -> None:
    source = ROOT / "campaign/clock.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)


def set_clock(clock: Path, seconds: float) -> None:
    """Set the clock so far off, in place: processes have the file mapped."""
    with open(clock, "r+b" if clock.exists() else "wb") as file:
        file.write(struct.pack("=d", seconds))
