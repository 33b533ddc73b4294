"""Products of NumPy have one thread where it is asked for, and as many as before after it."""

import numpy as np
import pytest

from assay.instruments import blas_threads
from assay.subjects import expected as expectations
from assay.subjects import kind_named
from assay.workloads.spec import WorkloadSpec

pytestmark = pytest.mark.skipif(
    blas_threads.threads() is None, reason="this NumPy has no OpenBLAS of its own"
)


@pytest.fixture(autouse=True)
def two_threads():
    """Two to begin with, whatever the environment of these tests says."""
    before, change = blas_threads.threads(), getattr(blas_threads._openblas(), blas_threads._SET)
    change(2)
    yield
    change(before)


def test_one_thread_within_and_as_many_as_before_after():
    with pytest.raises(KeyError), blas_threads.single_thread():
        assert blas_threads.threads() == 1
        raise KeyError
    assert blas_threads.threads() == 2


@pytest.mark.parametrize(("length", "wanted"), [(16, 1), (48, 2)])
def test_small_references_have_one(monkeypatch, length, wanted):
    monkeypatch.setattr(expectations, "_FEW_SCORES", 32 * 32)
    product, seen = np.exp, set()

    def noting(*arguments, **options):
        seen.add(blas_threads.threads())
        return product(*arguments, **options)

    monkeypatch.setattr(np, "exp", noting)
    spec = WorkloadSpec(
        batch=1, heads=1, kv_heads=1, query_length=length, key_length=length, head_dim=16,
        dtype="float32", causal=True, seed=0,
    )  # fmt: skip
    expectations.expected(kind_named("sequence").make(spec))
    assert seen == {wanted}
