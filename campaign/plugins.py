"""Studies with hostile plugins: code that hangs, exits, forks, detaches children, eats memory,
raises at import, forges results, prints without end, or changes what its process relies on.

It may fail as it likes. Its neighbours in the same cell must hold, the study ends with a record of
each subject, what it writes stays small, and no process is left.
"""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.devices import memory_bytes
from campaign.formats import ROOT, add_test_modules
from campaign.spread import Effort
from campaign.studies import LEFT_S, run_studies

WAYS_EACH = 3
_MEMORY_BYTES = 400 << 20  # that a cell may take
_RUN_BYTES = 30 << 20  # that a run may take on disk, whatever is printed
_TIMEOUT_S = 45
# What may become of a hostile subject.
ENDS = {
    "hangs": {"timeout"},
    "exits": {"failed"},
    "interrupts": {"failed"},
    "raises_at_import": {"failed"},
    "forks": {"ok", "failed"},
    "detaches": {"ok"},
    "eats_memory": {"oom"},
    "writes_junk": {"failed"},
    "prints": {"ok"},
    "replaces_settings": {"ok", "failed"},
}


def run(effort: Effort, emit: Callable[[dict[str, Any]], None]) -> bool:
    """Run hostile code until so many studies are done or the time is spent; True where all held."""
    add_test_modules()

    def hostile(folder: Path, number: int, draw: random.Random) -> Counter[str]:
        return run_hostile(folder, draw.sample(sorted(ENDS), WAYS_EACH))

    return run_studies("plugins", hostile, effort=effort, emit=emit)


def run_hostile(folder: Path, ways: list[str]) -> Counter[str]:
    """Run a study of these ways to misbehave, and see that nobody else is concerned."""
    from study_process import StudyProcess, is_alive, wait_until

    folder.mkdir()
    study = StudyProcess(folder=folder, plugins=ROOT / "campaign/hostile_plugins")
    percent = max(1, -(-_MEMORY_BYTES * 100 // memory_bytes()))
    arguments = study.run_arguments(
        "hostile", CELL_TIMEOUT_S=_TIMEOUT_S, CELL_MEMORY_PERCENT=percent
    )
    code = study.finish(study.start(*arguments, CAMPAIGN_WAYS=",".join(ways)))
    assert code in (0, 1) and "Traceback" not in study.stderr, (code, study.stderr[-1500:])
    wait_until(lambda: not any(map(is_alive, study.processes())), "the end of strays", LEFT_S)
    ends = study.ends("hostile")
    assert set(ends) == set(ways), f"cells without an end: {set(ways) - set(ends)}"
    for way in ways:
        turns = {
            r.subject: r.status for r in study.records("hostile") if r.cell == way and r.subject
        }
        own = turns.pop(way, None)
        assert turns == {"before": "ok", "after": "ok"}, f"{way}: neighbours are {turns}"
        assert own in ENDS[way], f"{way} is {own}, not {ENDS[way]}: {ends[way].reason}"
    size = sum(file.stat().st_size for file in study.results.rglob("*") if file.is_file())
    assert size < _RUN_BYTES, f"the run takes {size:,} bytes"
    return Counter(ways)
