"""Memory that nobody has written to is NaN in all tests of this folder."""

import pytest


@pytest.fixture(autouse=True)
def nan_in_new_memory():
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    before = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = before
