"""The lock that keeps a folder to one process, and what it leaves to others."""

import os
import subprocess
import sys

import pytest

from assay.errors import BadInput
from assay.records.durable import only_process

HOLD = """
import sys, time
from pathlib import Path
from assay.records.durable import only_process
with only_process(Path(sys.argv[1])) as mine:
    print(mine, flush=True)
    time.sleep(60)
"""


def test_the_lock_ends_with_its_holder_however_it_ends(tmp_path):
    lock = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(lock)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "True\n"
        with only_process(lock) as mine:
            assert not mine
        assert lock.read_text() == f"{holder.pid}\n", "who holds it is lost by asking"
    finally:
        holder.kill()
        holder.wait()
    with only_process(lock) as mine:
        assert mine
        assert lock.read_text() == f"{os.getpid()}\n"


def test_errors_of_the_work_under_the_lock_are_not_the_locks(tmp_path):
    """Any OSError of a study once came out as `cannot write .../lock`."""
    with pytest.raises(FileNotFoundError, match="elsewhere"), only_process(tmp_path / "lock"):
        (tmp_path / "elsewhere").read_text()


def test_a_lock_that_cannot_be_made_is_bad_input(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(BadInput, match="a part of this path is a file"),
        only_process(tmp_path / "file" / "lock"),
    ):
        pass
