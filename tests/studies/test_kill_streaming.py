"""Cells that stream under kill -9: nothing lost, doubled or half-shown, no process left.

The study, its group of processes, the process that forks for it, or the cell's own process is
killed at random moments, while a reader looks at the records all the time.
"""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from killed_walk import content, kill_often
from study_process import StudyProcess
from walk_records import STAGE


@pytest.mark.parametrize(
    ("kills", "left_s"),
    [
        ((5,), 60.0),
        pytest.param(
            (10, 10), 2.0, marks=[pytest.mark.slow, pytest.mark.early, pytest.mark.timeout(1200)]
        ),
    ],
    ids=lambda value: f"{sum(value)} kills" if isinstance(value, tuple) else "",
)
def test_nothing_is_lost_doubled_or_half_shown_by_kills(tmp_path, kills, left_s):
    """`kills` has the kills of each of the studies that run side by side."""
    quiet = StudyProcess(folder=tmp_path)
    assert quiet.run(STAGE) == 0
    undisturbed = content(quiet)
    with ThreadPoolExecutor(len(kills)) as pool:
        ends = [
            pool.submit(
                kill_often,
                tmp_path / f"kills{number}",
                count,
                random.Random(number),
                left_s,
                undisturbed,
            )
            for number, count in enumerate(kills)
        ]
        for end in ends:
            print(end.result())
