"""Work in forked processes: results in order, and a process that dies costs one result."""

import os
import signal
import time

import pytest

from assay.instruments.parallel import map_forked

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    # Other tests may have imported JAX into this process; a cell's process has not.
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def test_results_come_in_order_and_from_other_processes():
    def work(number):
        time.sleep(0.05 * (3 - number % 4))
        return [number, os.getpid()]

    results = list(map_forked(work, range(8)))
    assert [item for item, _ in results] == list(range(8))
    assert [result.value[0] for _, result in results] == list(range(8))
    assert len({result.value[1] for _, result in results} - {os.getpid()}) == 2


def test_a_process_that_dies_is_reported_and_the_other_items_continue():
    def work(number):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 3:
            os._exit(5)
        return number

    results = dict(map_forked(work, range(9)))
    assert results[2] == (None, f"its process was ended by signal {signal.SIGKILL.value}")
    assert results[3] == (None, "its process ended (5)")
    assert all(results[number] == (number, "") for number in range(9) if number not in (2, 3))


def test_every_process_may_die():
    results = map_forked(lambda _: os._exit(0), "ab")
    assert [result.ending for _, result in results] == ["its process ended (0)"] * 2


def test_a_single_core_works_in_this_process(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    results = map_forked(lambda _: os.getpid(), "ab")
    assert {result.value for _, result in results} == {os.getpid()}
