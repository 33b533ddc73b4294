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
    computed = statistics(tensor_of(values), heads_axis=1)
    finite = values[np.isfinite(values)]
    assert (computed.count, computed.nonfinite, computed.zeros) == (330, 2, 5)
    assert computed.mean == pytest.approx(finite.mean(), rel=1e-13)
    assert computed.std == pytest.approx(finite.std(), rel=1e-10)
    assert (computed.minimum, computed.maximum) == (0, finite.max())
    assert computed.absmax == finite.max()


def test_channels_that_stand_out_are_named_by_head_and_place(blocks):
    q = np.random.default_rng(0).standard_normal((2, 3, 11, 5)).astype(np.float16)
    q[1, 2, 4, 3], q[0, 0, 0, 1] = -60, 50
    computed = statistics(tensor_of(q), heads_axis=1)
    assert computed.outliers[:2] == [(2 * 5 + 3, 60.0), (1, 50.0)] and len(computed.outliers) == 8
    swapped = statistics(tensor_of(q.swapaxes(1, 2)), heads_axis=2)
    assert swapped.outliers == computed.outliers
    merged = statistics(tensor_of(q.swapaxes(1, 2).reshape(2, 11, 15)))
    assert merged.outliers == computed.outliers


@pytest.mark.parametrize("dtype", ODD_BITS)
def test_dtypes_that_numpy_lacks(dtype):
    bits = np.array([ODD_BITS[dtype]], "uint16" if dtype == "bfloat16" else "uint8")
    computed = statistics(Tensor(dtype, bits))
    assert (computed.count, computed.nonfinite, computed.zeros) == (5, 2, 1)
    assert (computed.minimum, computed.maximum, computed.mean) == (-2.0, 1.0, pytest.approx(-1 / 3))
    assert computed.outliers[:2] == [(1, 2.0), (0, 1.0)]


@pytest.mark.parametrize("values", [np.zeros((2, 0, 3)), np.full((2, 3), np.nan)])
def test_where_nothing_is_finite_nothing_is_made_up(values):
    computed = statistics(tensor_of(values))
    assert computed.nonfinite == values.size and computed.count == values.size
    assert (
        computed.mean
        is computed.std
        is computed.minimum
        is computed.maximum
        is computed.absmax
        is None
    )
    assert computed.outliers == []


def test_whole_numbers_and_truths_have_no_channels():
    computed = statistics(tensor_of(np.tri(4, dtype=bool)))
    assert (computed.zeros, computed.mean, computed.outliers) == (6, 0.625, [])
    assert statistics(tensor_of(np.arange(5))).maximum == 4.0
