"""Work in several processes: results in order, and one that ends early costs one result."""

import os
import signal
import time

import pytest

from assay.studies import side_by_side

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

    found = list(side_by_side.each(range(8), work))
    assert [thing for thing, _ in found] == list(range(8))
    assert [result[0] for _, (result, _) in found] == list(range(8))
    assert len({result[1] for _, (result, _) in found} - {os.getpid()}) == 2


def test_one_that_ends_its_process_is_told_and_the_others_go_on():
    def work(number):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 3:
            os._exit(5)
        return number

    found = dict(side_by_side.each(range(9), work))
    assert found[2] == (None, f"its process was ended by signal {signal.SIGKILL.value}")
    assert found[3] == (None, "its process ended (5)")
    assert all(found[number] == (number, "") for number in range(9) if number not in (2, 3))


def test_the_last_may_end_its_process_too():
    def work(number):
        os._exit(0)

    assert [ended for _, (_, ended) in side_by_side.each("ab", work)] == [
        "its process ended (0)"
    ] * 2


def test_one_core_works_here(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert {result for _, (result, _) in side_by_side.each("ab", lambda _: os.getpid())} == {
        os.getpid()
    }
