"""A study killed again and again loses nothing, repeats nothing and keeps nothing by halves.

The process is killed by SIGKILL at moments spread over its whole life: imports, planning, cells,
the writing of records, the report. Cells say in a side file that they begin, so that what ran is
known from outside the log that is tested.
"""

import random
from collections import Counter

import pytest
from killed_study import idle_life_s, kill_and_finish


@pytest.mark.parametrize(
    "runs",
    [
        (6,),
        pytest.param(
            (15,) * 2, marks=[pytest.mark.slow, pytest.mark.early, pytest.mark.timeout(900)]
        ),
    ],
    ids=lambda runs: f"{sum(runs)} kills",
)
def test_nothing_is_lost_repeated_or_halved_by_kills(tmp_path, runs):
    """`runs` has the number of kills of each run, after which it is finished and looked at."""
    life_s = idle_life_s(tmp_path)
    moments = random.Random(sum(runs))
    reached = Counter()
    for number, kills in enumerate(runs):
        reached += kill_and_finish(tmp_path / f"run{number}", kills, moments, life_s)
    print(f"when they were killed, the processes were {dict(reached)}")
    wanted = 3 if len(runs) > 1 else 2  # a few kills may miss one of the three
    assert len(reached.keys() - {"ended"}) >= wanted, f"only {reached}"
