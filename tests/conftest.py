"""Settings of all tests: Hypothesis gives no verdict on how fast this machine is at the moment,
without a GPU Triton interprets, whichever library imports it first, and of the parameters of a test
that is marked `sampled` one of three is in `make test`, all of them in `make test-full`."""

import os
from collections import Counter
from importlib.util import find_spec

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


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen: Counter[object] = Counter()
    for item in items:
        if item.get_closest_marker("sampled"):
            if seen[item.function] % 3:
                item.add_marker(pytest.mark.slow)
            seen[item.function] += 1
