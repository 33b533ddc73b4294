"""Settings of all tests: Hypothesis gives no verdict on how fast this machine is at the moment,
without a GPU Triton interprets, whichever library imports it first, and of the parameters of a test
that is marked `sampled` the first and some, one of three, are in `make test`, all in
`make test-full`. They are chosen by their names: every third would be one length of three always.
"""

import os
from importlib.util import find_spec
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


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    begun = set()
    for item in items:
        if item.get_closest_marker("sampled"):
            if item.function in begun and crc32(item.name.encode()) % 3:
                item.add_marker(pytest.mark.slow)
            begun.add(item.function)
