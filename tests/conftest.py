"""Settings of all tests: Hypothesis gives no verdict on how fast this machine is at the moment,
without a GPU Triton interprets, whichever library imports it first, and of the parameters of a test
that is marked `sampled` the first and some are in `make test`, all in `make test-full`: of a grid
as many as have each value of each parameter, of what has a value of its own one of six. They are
chosen by their names: every sixth would be one length of six always.
Tests of minutes, marked `early`, begin first, or at the end one worker would run them alone; so do
files that set up for long, which at the end several workers would do.
"""

import gc
import os
from collections import Counter, defaultdict
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
    of_function = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            of_function[item.function].append(item)
    for group in of_function.values():
        for item in set(group) - _sample(group):
            item.add_marker(pytest.mark.slow)
    yield
    items[:] = _dealt(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def pytest_collection_finish() -> None:
    """Spare the collector what lives until the end: tests and all that they import."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


def _sample(group: list[pytest.Item]) -> set[pytest.Item]:
    """Those of a test's items that `make test` runs."""
    values = {
        item: {(name, repr(value)) for name, value in item.callspec.params.items()}
        for item in group
    }
    counts = Counter(value for own in values.values() for value in own)
    missing = {value for value, count in counts.items() if count > 1}
    first, chosen = group[0], set()
    for item in sorted(group, key=lambda item: (item is not first, crc32(item.name.encode()))):
        is_sixth = crc32(item.name.encode()) % 6 == 0
        is_alone = any(counts[value] == 1 for value in values[item])
        if item is first or values[item] & missing or (is_sixth and is_alone):
            chosen.add(item)
            missing -= values[item]
    return chosen


def _dealt(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Every worker begins with its part of the list, so long tests head each part; those of a file
    that is marked as a whole share what it sets up, and with it their worker."""
    long = defaultdict(list)
    for item in items:
        if item.get_closest_marker("early"):
            whole = item.getparent(pytest.Module).get_closest_marker("early")
            long[item.path if whole else item.nodeid].append(item)
    others = iter([item for item in items if not item.get_closest_marker("early")])
    dealt: list[pytest.Item] = []
    for number in range(workers):
        own = [item for group in list(long.values())[number::workers] for item in group]
        size = (len(items) - len(dealt)) // (workers - number)
        dealt += [*own, *islice(others, max(0, size - len(own)))]
    return dealt + list(others)
