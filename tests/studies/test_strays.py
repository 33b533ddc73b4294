"""Processes that a cell leaves in sessions of their own: they count, and they end with the cell."""

import subprocess
import sys
import time

import pytest
from study_process import StudyProcess, is_alive

from assay.devices import memory_bytes

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="processes are adopted on Linux")


@linux_only
def test_strays_end_with_their_cell_and_with_a_killed_study(tmp_path):
    """A child that forked twice and called setsid outlived its cell and a killed study, and held
    any amount of memory: only the worker's own was watched."""
    percent = max(1, -(-400 * (1 << 20) * 100 // memory_bytes()))
    study = StudyProcess(folder=tmp_path)
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    process = study.start(*study.run_arguments("strays", CELL_MEMORY_PERCENT=percent))
    try:
        study.wait_for("stays")
        pids = dict(zip(study.diary(), study.processes(), strict=True))
        assert is_alive(pids["stays"]) and is_alive(pids["stray of stays"])
        assert not is_alive(pids["stray of ends"]) and not is_alive(pids["stray of eats"])
        ends = study.ends("strays")
        assert ends["ends"].status == "ok" and ends["eats"].status == "oom", ends
        process.kill()
        process.wait()
        time.sleep(2)
        assert not [name for name, pid in pids.items() if is_alive(pid)]
        assert is_alive(bystander.pid)
    finally:
        process.kill()
        bystander.kill()
        bystander.wait()
