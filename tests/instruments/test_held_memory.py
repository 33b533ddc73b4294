"""The memory that a limit is held against: of a process and all that it started, each page once."""

import subprocess
import sys

import pytest

from assay.instruments.isolation import holds_more

MIB = 1 << 20
# A process that holds 200 MiB and forks; the child writes `own` MiB more before both wait.
FORKS = """
import os, sys
held = bytearray(b"x" * (200 << 20))
ready, tell = os.pipe()
if os.fork() == 0:
    more = bytearray(b"y" * ({own} << 20))
    os.write(tell, b".")
    sys.stdin.read()
    os._exit(0)
os.read(ready, 1)
print("ready", flush=True)
sys.stdin.read()
os.wait()
"""


@pytest.mark.parametrize(("own", "above"), [(0, False), (200, True)])
def test_a_fork_counts_by_what_it_does_not_share(own, above):
    """Resident sizes of both are above 300 MiB either way: a fork that only shares is no reason to
    end a cell."""
    process = subprocess.Popen(
        [sys.executable, "-c", FORKS.format(own=own)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "ready\n"
        assert holds_more(process.pid, 300 * MIB) is above
        assert holds_more(process.pid, 100 * MIB) and not holds_more(process.pid, 1000 * MIB)
    finally:
        process.communicate()


def test_a_process_that_has_ended_holds_nothing():
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    assert not holds_more(done.pid, 1)
