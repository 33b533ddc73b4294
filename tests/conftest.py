"""Settings of all tests: Hypothesis gives no verdict on how fast this machine is at the moment,
without a GPU Triton interprets, whichever library imports it first, and of the parameters of a test
that is marked `sampled` the first and some, one of three, are in `make test`, all in
`make test-full`. They are chosen by their names: every third would be one length of three always.
Tests of minutes, marked `early`, begin first, or at the end one worker would run them alone.
"""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

if find_spec("torch"):
    import torch

    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.hookimpl(wrapper=True)  # -m chooses in between
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    begun = set()
    for item in items:
        if item.get_closest_marker("sampled"):
            if item.function in begun and crc32(item.name.encode()) % 3:
                item.add_marker(pytest.mark.slow)
            begun.add(item.function)
    yield
    items[:] = _dealt(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _dealt(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Every worker begins with its part of the list, so long tests head each part."""
    long = [item for item in items if item.get_closest_marker("early")]
    others = iter([item for item in items if not item.get_closest_marker("early")])
    dealt: list[pytest.Item] = []
    for number in range(workers):
        own = long[number::workers]
        size = (len(items) - len(dealt)) // (workers - number)
        dealt += [*own, *islice(others, max(0, size - len(own)))]
    return dealt + list(others)
