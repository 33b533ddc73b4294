"""A clock that stands still while others have the processor."""

import multiprocessing
import os
import sys
import time

import pytest

from assay.instruments import own_time
from assay.instruments.own_time import own_seconds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel counts on Linux")


def spin(until):
    while time.monotonic() < until:
        pass


def test_waiting_for_the_processor_does_not_count_and_sleeping_does():
    """Four processes on one core: a second of work takes about four on the wall clock."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    others = [
        multiprocessing.get_context("fork").Process(target=spin, args=(time.monotonic() + 3,))
        for _ in range(3)
    ]
    for other in others:
        other.start()
    try:
        wall, own, cpu = time.monotonic(), own_seconds(), time.process_time()
        while time.process_time() - cpu < 0.4:
            pass
        wall, own = time.monotonic() - wall, own_seconds() - own
    finally:
        for other in others:
            other.kill()
            other.join()
        os.sched_setaffinity(0, before)
    assert wall > 0.8 and own < 0.4 + 0.3 * (wall - 0.4)
    start = own_seconds()
    time.sleep(0.3)
    assert own_seconds() - start > 0.25


def test_a_wait_between_the_two_clocks_does_not_set_it_back(monkeypatch):
    """A thread that lost the processor between the readings had a budget that nothing was taken of:
    a second case of a check with a budget of 1e-9 s was run."""
    waits = iter([2.0, 7.0, 7.0, 7.0])  # five seconds go by between the first two
    monkeypatch.setattr(own_time, "_waited_s", lambda thread: next(waits))
    monkeypatch.setattr(own_time.time, "monotonic", lambda: 100.0)
    assert own_seconds() == 93.0
