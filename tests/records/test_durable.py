"""The lock that keeps a folder to one process, and what it leaves to others."""

import errno
import os
import resource
import signal
import subprocess
import sys

import pytest

from assay.errors import BadInput, CannotRunHere
from assay.records.durable import in_words, is_locked, only_process, waiting_for_others

HOLD_AND_FORK = """
import os, sys, time
from pathlib import Path
from assay.records.durable import waiting_for_others
with waiting_for_others(Path(sys.argv[1]), 1):
    fork = os.fork()
    if fork:
        print(fork, flush=True)
    time.sleep(600)
"""
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


def test_asking_whether_a_lock_is_held_takes_it_from_nobody(tmp_path):
    lock = tmp_path / "lock"
    assert not is_locked(lock) and not lock.exists()
    with only_process(lock) as mine:
        assert mine and is_locked(lock)
    assert not is_locked(lock)
    asking = f"while True: is_locked(Path({str(lock)!r}))"
    code = f"from pathlib import Path\nfrom assay.records.durable import is_locked\n{asking}"
    asker = subprocess.Popen([sys.executable, "-c", code])
    try:
        for _ in range(2000):
            with only_process(lock) as mine:
                assert mine, "somebody who only asked was in the way"
    finally:
        asker.kill()
        asker.wait()


def test_a_process_waits_for_another_in_its_place_and_not_for_that_ones_forks(tmp_path):
    """A fork inherits a file with its lock, and lives on where its parent is killed."""
    lock = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_AND_FORK, str(lock)], stdout=subprocess.PIPE, text=True
    ) as holder:
        fork = int(holder.stdout.readline())
        try:
            with pytest.raises(CannotRunHere, match="still holds"), waiting_for_others(lock, 0.1):
                pass
            holder.kill()
            with waiting_for_others(lock, 60):
                os.kill(fork, 0)  # it is still there
        finally:
            os.kill(fork, signal.SIGKILL)


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


def test_a_lock_on_a_full_disk_is_refused_with_what_to_do(tmp_path):
    """The bytes that could not be written were written once more when the file was closed, and that
    error, which names neither the file nor what to do, came in place of ours."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        refusal = pytest.raises(BadInput, match=r"lock: .*raise that limit and resume")
        with refusal, only_process(tmp_path / "lock"):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_that_nobody_explained_has_words_too():
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "results/scratch")
    assert in_words(full).startswith("cannot write results/scratch: the disk is full; free some")
    assert "cannot write a file" in in_words(OSError(errno.EDQUOT, "quota"))
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory", "x.json")
    assert in_words(missing) == str(missing)
