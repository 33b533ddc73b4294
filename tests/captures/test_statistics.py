"""Statistics of tensors, against NumPy on the whole tensor at once."""

import numpy as np
import pytest

from assay.captures import statistics as module
from assay.captures.statistics import statistics
from assay.captures.tensor import Tensor, tensor_of

# Of float8 and bfloat16: the bits of 1, -2, 0, NaN and infinity where there is one.
ODD_BITS = {
    "bfloat16": [0x3F80, 0xC000, 0, 0x7FC0, 0x7F80],
    "float8_e4m3fn": [0x38, 0xC0, 0, 0x7F, 0xFF],
    "float8_e5m2": [0x3C, 0xC0, 0, 0x7F, 0x7C],
}


@pytest.fixture(params=[7, 1 << 18], ids=["small blocks", "one block"])
def blocks(request, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", request.param)


def test_they_are_those_of_the_whole(blocks):
    values = 1e4 + np.random.default_rng(0).standard_normal((2, 3, 11, 5))
    values[0, 1, 2, 3], values[1, 1, 1, 1], values[0, 0, 0] = np.nan, -np.inf, 0
    found = statistics(tensor_of(values), heads_axis=1)
    finite = values[np.isfinite(values)]
    assert (found.count, found.nonfinite, found.zeros) == (330, 2, 5)
    assert found.mean == pytest.approx(finite.mean(), rel=1e-13)
    assert found.std == pytest.approx(finite.std(), rel=1e-10)
    assert (found.minimum, found.maximum) == (0, finite.max())
    assert found.absmax == finite.max()


def test_channels_that_stand_out_are_named_by_head_and_place(blocks):
    q = np.random.default_rng(0).standard_normal((2, 3, 11, 5)).astype(np.float16)
    q[1, 2, 4, 3], q[0, 0, 0, 1] = -60, 50
    found = statistics(tensor_of(q), heads_axis=1)
    assert found.outliers[:2] == [(2 * 5 + 3, 60.0), (1, 50.0)] and len(found.outliers) == 8
    swapped = statistics(tensor_of(q.swapaxes(1, 2)), heads_axis=2)
    assert swapped.outliers == found.outliers
    merged = statistics(tensor_of(q.swapaxes(1, 2).reshape(2, 11, 15)))
    assert merged.outliers == found.outliers


@pytest.mark.parametrize("dtype", ODD_BITS)
def test_dtypes_that_numpy_lacks(dtype):
    bits = np.array([ODD_BITS[dtype]], "uint16" if dtype == "bfloat16" else "uint8")
    found = statistics(Tensor(dtype, bits))
    assert (found.count, found.nonfinite, found.zeros) == (5, 2, 1)
    assert (found.minimum, found.maximum, found.mean) == (-2.0, 1.0, pytest.approx(-1 / 3))
    assert found.outliers[:2] == [(1, 2.0), (0, 1.0)]


@pytest.mark.parametrize("values", [np.zeros((2, 0, 3)), np.full((2, 3), np.nan)])
def test_where_nothing_is_finite_nothing_is_made_up(values):
    found = statistics(tensor_of(values))
    assert found.nonfinite == values.size and found.count == values.size
    assert found.mean is found.std is found.minimum is found.maximum is found.absmax is None
    assert found.outliers == []


def test_whole_numbers_and_truths_have_no_channels():
    found = statistics(tensor_of(np.tri(4, dtype=bool)))
    assert (found.zeros, found.mean, found.outliers) == (6, 0.625, [])
    assert statistics(tensor_of(np.arange(5))).maximum == 4.0
