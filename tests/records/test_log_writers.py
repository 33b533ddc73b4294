"""Several processes on one log at once: each batch is there once, in one piece, in order."""

import random
import signal
import subprocess
import sys
import time
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from made_records import batch, contents, written
from new_process import environment

from assay.records.log import Log, read

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def start_writer(path, name, *, count, size=4, padding=20, together=False) -> subprocess.Popen:
    arguments = [path, name, count, size, padding]
    return subprocess.Popen(
        [sys.executable, HERE / "append_batches.py", *map(str, arguments)],
        env=environment(HERE),
        stdin=subprocess.PIPE if together else subprocess.DEVNULL,
        stdout=subprocess.PIPE if together else subprocess.DEVNULL,
    )


def until_written(path, name: str) -> None:
    """Wait for a batch, for as long as a busy machine may take."""
    deadline = time.monotonic() + 300
    while not path.exists() or name not in {record.cell for record in read(path).records}:
        assert time.monotonic() < deadline, f"waited in vain for {name}"
        time.sleep(0.05)


def whole_batches(path) -> list[str]:
    """The names of the batches in the log, each of which must be in one piece and complete."""
    records = read(path).records
    assert [r.sequence for r in records] == list(range(1, len(records) + 1))
    names = []
    for name, group in groupby(records, key=lambda r: r.cell):
        values = [r.value for r in group]
        assert values == [float(index) for index in range(len(values))], name
        names.append(name)
    assert len(set(names)) == len(names), "a batch is there twice or in two pieces"
    return names


def test_two_processes_append_at_once(path):
    count = 300
    writers = [start_writer(path, name, count=count, together=True) for name in ("a", "b")]
    for writer in writers:
        assert writer.stdout.readline() == b"ready\n"
    for writer in writers:
        writer.stdin.close()
    assert [writer.wait(timeout=300) for writer in writers] == [0, 0]
    names = whole_batches(path)
    for writer in ("a", "b"):
        mine = [name for name in names if name.startswith(f"{writer}-")]
        assert mine == [f"{writer}-{index}" for index in range(count)]
    switches = sum(a[0] != b[0] for a, b in pairwise(names))
    assert switches > 1, "the two never wrote at the same time, so nothing was shown"


@pytest.mark.parametrize("kills", [8, pytest.param(30, marks=pytest.mark.slow)])
def test_one_process_is_killed_again_and_again_while_another_goes_on(path, kills):
    """Large batches, so that kills fall into the write itself."""
    moments = random.Random(kills)
    steady = start_writer(path, "steady", count=0)
    try:
        for number in range(kills):
            options = {"count": 0, "size": 400, "padding": 2000, "together": True}
            victim = start_writer(path, f"victim{number}", **options)
            assert victim.stdout.readline() == b"ready\n"
            victim.stdin.close()
            if number == 0:
                until_written(path, "victim0-0")
            time.sleep(moments.random() * 0.4)
            victim.kill()
            victim.wait()
    finally:
        steady.kill()
        steady.wait()
    written(path, batch("last", 2))
    names = whole_batches(path)
    for writer in ["steady", *(f"victim{number}" for number in range(kills))]:
        mine = [name for name in names if name.startswith(f"{writer}-")]
        assert mine == [f"{writer}-{index}" for index in range(len(mine))]
    assert sum(name.startswith("steady-") for name in names) > kills
    assert any(name.startswith("victim") for name in names)
    assert names[-1] == "last"


HALF_A_BATCH = """
import fcntl, os, signal, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_APPEND)
fcntl.flock(file, fcntl.LOCK_EX)
os.write(file, bytes.fromhex(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_killed_in_the_middle_of_its_write_holds_up_nobody(path, tmp_path):
    """It dies with the lock held and half a batch written, while this process has the log open."""
    other = written(tmp_path / "other.jsonl", batch("victim", 3)).read_bytes()
    with Log(path) as log:
        log.append(batch("before", 2))
        for cut in (1, len(other) // 2, len(other) - 1):
            command = [sys.executable, "-c", HALF_A_BATCH, str(path), other[:cut].hex()]
            assert subprocess.run(command, timeout=300).returncode == -signal.SIGKILL
            log.append(batch(f"after {cut}", 2))
        assert log.set_aside_bytes == 1 + len(other) // 2 + len(other) - 1
    assert len(whole_batches(path)) == 4
    assert contents(read(path).records)[:2] == contents(batch("before", 2))


def test_reading_while_another_process_appends_gives_whole_batches(path):
    """`read` once took the bytes first and their end later, when more had been written: the
    records then ended in half a batch, or in half a line that was called damaged."""
    writer = start_writer(path, "w", count=0, size=40, padding=2000)
    try:
        sizes = set()
        shortest, deadline = time.monotonic() + 2.5, time.monotonic() + 300
        while time.monotonic() < (deadline if len(sizes) <= 5 else shortest):
            if path.exists():
                reading = read(path)
                assert reading.torn_bytes >= 0
                assert not reading.records or reading.records[-1].closes
                sizes.add(len(reading.records))
    finally:
        writer.kill()
        writer.wait()
    assert len(sizes) > 5, "the log did not grow while it was read"
