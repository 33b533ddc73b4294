"""A busy machine is pointed out: by its load, and by how long our threads waited."""

import multiprocessing
import os
import sys
import time

import pytest

from assay.instruments import machine_load
from assay.instruments.machine_load import Load
from assay.records.schema import MACHINE_LOAD

QUIET = Load(average=0.3, ran_s=1.0, waited_s=0.0)


@pytest.fixture
def threads(tmp_path, monkeypatch):
    """The kernel's counts of two threads, in nanoseconds: ran, waited, turns."""
    for number, counts in enumerate(("3000000000 0 9", "1000000000 0 9")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "schedstat").write_text(counts)
    monkeypatch.setattr(machine_load, "_THREADS", tmp_path)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (2.0, 0.0, 0.0))
    return tmp_path


def test_a_load_above_the_cores_is_a_remark(threads, monkeypatch):
    monkeypatch.setattr("os.getloadavg", lambda: (7.9, 0.0, 0.0))
    (remark,) = machine_load.remarks(QUIET)
    assert remark.metric == MACHINE_LOAD and remark.value == 7.9
    assert remark.reason == (
        "the machine was busy: load 7.9 on 2 cores; times are of a busy machine"
    )


def test_a_load_of_all_cores_may_be_ours(threads):
    assert not list(machine_load.remarks(Load(average=2.2, ran_s=0.0, waited_s=0.0)))


def test_threads_that_waited_are_a_remark_whatever_the_load(threads):
    """Beside one other process a call took three times as long, and the load of a minute was no
    higher than our own threads may make it."""
    assert not list(machine_load.remarks(QUIET))
    (threads / "1" / "schedstat").write_text("1000000000 2000000000 9")
    (remark,) = machine_load.remarks(QUIET)
    assert "load 2.0 on 2 cores, and threads waited 40 % of their time for one" in remark.reason


def test_a_thread_that_ended_takes_its_counts_with_it(threads):
    before = machine_load.read()
    (threads / "0" / "schedstat").unlink()
    assert not list(machine_load.remarks(before))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel counts on Linux")
def test_one_other_process_on_our_core_is_seen(monkeypatch):
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    other = multiprocessing.get_context("fork").Process(target=spin)
    other.start()
    try:
        before, start = machine_load.read(), time.process_time()
        while time.process_time() - start < 0.4:
            pass
        (remark,) = machine_load.remarks(before)
    finally:
        other.kill()
        other.join()
        os.sched_setaffinity(0, cores)
    assert "threads waited" in remark.reason


def spin():
    while True:
        pass
