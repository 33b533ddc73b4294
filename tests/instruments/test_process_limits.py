"""Limits of a process: what counts is its own progress, by a clock that nobody sets."""

import os
import shutil
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


WORK = """start = time.process_time()
while time.process_time() - start < float(sys.argv[3]):
    pass
"""
IN_A_CHILD = "\n".join(f"    {line}" for line in WORK.splitlines())
SLEEPS_BESIDE = BUSY.replace(
    WORK,
    f"worker = os.fork()\nif not worker:\n{IN_A_CHILD}\n    os._exit(0)\nos.waitpid(worker, 0)\n",
)


def ran(script, tmp_path, *arguments, stall_s):
    with open(tmp_path / "out", "wb") as out:
        return isolation.run(
            [sys.executable, "-c", script, *map(str, arguments)],
            stdout=out,
            stderr=out,
            environment=dict(os.environ),
            limits=isolation.Limits(
                timeout_s=50, progress=str(tmp_path / "progress"), stall_s=stall_s
            ),
        )


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel counts on Linux")
def test_what_a_process_waits_for_may_wait_for_a_core(tmp_path):
    """A second process that was starved was taken for a hang of the first, which slept."""
    core = min(os.sched_getaffinity(0))
    exit = ran(SLEEPS_BESIDE, tmp_path, tmp_path / "progress", core, 1, stall_s=2.5)
    assert exit.ending == "finished", exit
    assert exit.elapsed_s > 2.5


COMPILES = """
import subprocess, sys, time
open(sys.argv[1], "w").write("begun")
subprocess.run([sys.argv[2], "2.5"])
"""


@pytest.mark.parametrize(("name", "ending"), [("cc1plus", "finished"), ("waits", "timeout")])
def test_a_compiler_is_waited_for(tmp_path, name, ending):
    program = tmp_path / name
    shutil.copy(shutil.which("sleep"), program)
    exit = ran(COMPILES, tmp_path, tmp_path / "progress", program, stall_s=0.8)
    assert (exit.ending, exit.stalled) == (ending, ending == "timeout"), exit


TORCH_COMPILES = """
import sys, time, torch, torch._dynamo
from assay.instruments import progress
open(sys.argv[1], "w").write("begun")
progress.goes_to(sys.argv[1])
progress.watch_compilers()
def backend(graph, inputs):
    time.sleep(3)
    return graph.forward
compiled = torch.compile(lambda x: x + 1, backend=backend)
compiled(torch.ones(3))
open(sys.argv[1], "a").write("compiled")
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize(("idle_s", "ending"), [(0, "finished"), (60, "timeout")])
def test_what_torch_compiles_does_not_hang(tmp_path, idle_s, ending):
    """torch.compile in a kernel was refused as "it hangs" after 60 s of one case."""
    pytest.importorskip("torch")
    exit = ran(TORCH_COMPILES, tmp_path, tmp_path / "progress", idle_s, stall_s=2)
    assert (exit.ending, exit.stalled) == (ending, ending == "timeout"), exit
    assert exit.elapsed_s > 3


SIGNS = """
import sys, time
from assay.instruments import progress
open(sys.argv[1], "w").write("begun")
progress.goes_to(sys.argv[1])
for number in range(12):
    progress.sign()
    time.sleep(0.25)
"""


def test_a_sign_is_progress(tmp_path):
    assert ran(SIGNS, tmp_path, tmp_path / "progress", stall_s=2).ending == "finished"
