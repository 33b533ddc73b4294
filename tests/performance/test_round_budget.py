"""Budgets of timed rounds are of a subject's own time: a busy machine takes no rounds away."""

import os
import subprocess
import sys
import time

import pytest

from assay.laws.pairs import FEWEST_ROUNDS
from assay.performance.rounds import Turns

SPIN = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"


def taken(seconds: float, *, rounds: int, budget_s: float, work) -> int:
    """Turns of one subject whose turns do `work` for so long."""
    turns = 0
    for _ in Turns(["mine"], rounds=rounds, budget_s=budget_s):
        work(seconds)
        turns += 1
    return turns


def compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_sleeping_is_a_subjects_own_time():
    assert FEWEST_ROUNDS <= taken(0.05, rounds=30, budget_s=0.4, work=time.sleep) <= 9


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel counts on Linux")
def test_time_of_others_is_not_charged():
    """Three processes spin on the core of ours: 10 turns of 0.04 s take 1.6 s on the wall clock."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    others = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(3)]
    try:
        time.sleep(0.5)
        start = time.monotonic()
        assert taken(0.04, rounds=10, budget_s=0.6, work=compute) == 10
        assert time.monotonic() - start > 0.8, "nobody else had the processor"
    finally:
        for other in others:
            other.kill()
            other.wait()
        os.sched_setaffinity(0, before)
