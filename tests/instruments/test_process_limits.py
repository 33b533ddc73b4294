"""Limits of a process: what counts is its own progress, by a clock that nobody sets."""

import os
import sys

import pytest

from assay.instruments import isolation

LONG_AGO = "os.utime(path, (0, 0))"  # as after a step of the wall clock
WRITES = f"""
import os, sys, time
path = sys.argv[1]
for number in range(8):
    with open(path, "a") as file:
        file.write("a line")
    {LONG_AGO}
    time.sleep(0.25)
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize(("idle_s", "ending"), [(0, "finished"), (60, "timeout")])
def test_a_step_of_the_wall_clock_is_no_stall_and_a_stall_is_one(tmp_path, idle_s, ending):
    """The age of the file was taken from the wall clock: after a step forward, a cell that went on
    was ended as one that hangs."""
    progress = tmp_path / "progress"
    with open(tmp_path / "out", "wb") as out:
        exit = isolation.run(
            [sys.executable, "-c", WRITES, str(progress), str(idle_s)],
            stdout=out,
            stderr=out,
            environment=dict(os.environ),
            limits=isolation.Limits(timeout_s=50, progress=str(progress), stall_s=1.5),
        )
    assert exit.ending == ending
    assert (exit.reason or "1.5 s for one case").count("1.5 s for one case") == 1


BUSY = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[2])})
others = []
for _ in range(5):
    others.append(os.fork())
    while not others[-1]:
        pass
open(sys.argv[1], "w").write("begun")
start = time.process_time()
while time.process_time() - start < float(sys.argv[3]):
    pass
for other in others:
    os.kill(other, 9)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel counts on Linux")
@pytest.mark.parametrize(
    ("work_s", "stall_s", "ending"), [(1, 4, "finished"), (30, 0.3, "timeout")]
)
def test_waiting_for_a_core_is_no_stall_and_too_much_work_is_one(tmp_path, work_s, stall_s, ending):
    """Six on one core: on a busy machine the search for a cause was ended, and its kernel blamed
    with a hang. They take 6 s alone and may take 40, ten times the limit on the wall clock."""
    progress = tmp_path / "progress"
    core = min(os.sched_getaffinity(0))
    with open(tmp_path / "out", "wb") as out:
        exit = isolation.run(
            [sys.executable, "-c", BUSY, str(progress), str(core), str(work_s)],
            stdout=out,
            stderr=out,
            environment=dict(os.environ),
            limits=isolation.Limits(timeout_s=50, progress=str(progress), stall_s=stall_s),
        )
    assert exit.ending == ending, exit
    assert exit.elapsed_s > stall_s
