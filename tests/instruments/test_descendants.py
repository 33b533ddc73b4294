"""Processes below a process: listed whichever thread started them, and none left."""

import subprocess
import sys

import pytest
from new_process import environment

from assay.instruments import descendants
from assay.instruments.descendants import children, with_descendants

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="processes are listed on Linux")
# A thread starts a shell that starts a sleep.
STARTS = """
import subprocess, sys, threading
line = ["sh", "-c", "sleep 600 & echo; wait"]
threading.Thread(target=lambda: [
    process := subprocess.Popen(line, stdout=subprocess.PIPE),
    process.stdout.readline(),
    print("ready", flush=True),
    sys.stdin.read(),
]).start()
"""
# One of two children is known; the other forked once more and left, and is adopted.
STRAYS = """
import os, subprocess
from assay.instruments.descendants import adopt, children, end_strays
adopt()
known = subprocess.Popen(["sleep", "600"])
subprocess.run(["setsid", "sh", "-c", "sleep 600 & sleep 600 &"])
assert len(children(os.getpid())) == 3
end_strays({known.pid})
assert children(os.getpid()) == [known.pid]
end_strays()
assert children(os.getpid()) == []
"""


@linux_only
@pytest.mark.parametrize("listed", [True, False], ids=["by the kernel", "by parents"])
def test_what_a_thread_started_is_a_child(listed, monkeypatch):
    monkeypatch.setattr(descendants, "_kernel_lists_children", lambda: listed)
    process = subprocess.Popen(
        [sys.executable, "-c", STARTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        (shell,) = children(process.pid)
        (sleep,) = children(shell)
        assert with_descendants(process.pid) == [process.pid, shell, sleep]
    finally:
        for pid in (sleep, shell):
            subprocess.run(["kill", str(pid)], check=True)
        process.communicate()
    assert children(process.pid) == []


@linux_only
def test_strays_are_ended_and_others_are_not():
    subprocess.run([sys.executable, "-c", STRAYS], check=True, env=environment(), timeout=60)
