"""Inputs of a timed round: multiplied exactly, lying as they did, and every change of them seen."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from assay.frameworks.torch import arrays


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "uint8"])
@pytest.mark.parametrize("width", [7, 8])
def test_a_changed_element_changes_the_sum(dtype, width):
    tensor = torch.ones(1, 3, 5, width).to(getattr(torch, dtype)).transpose(1, 2)
    before = arrays.checksum(tensor)
    assert arrays.checksum(tensor) == before
    tensor[0, 1, 2, 3] = 2
    assert arrays.checksum(tensor) != before


def test_an_element_whose_bytes_change_places_changes_the_sum():
    tensor = torch.tensor([1, 2, 0x0102], dtype=torch.int16).view(torch.float16)
    swapped = torch.tensor([1, 2, 0x0201], dtype=torch.int16).view(torch.float16)
    assert arrays.checksum(tensor) != arrays.checksum(swapped)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", ["plain", *arrays.layouts()])
def test_products_are_exact_and_lie_alike(layout, dtype):
    values = np.random.default_rng(0).standard_normal((2, 4, 6, 8)).astype(np.float32)
    tensor = arrays.place(values, dtype, "cpu", layout)
    signs = np.float32([1, -1, -1, 1, 4, -4, 2, -2])
    result = arrays.times(tensor, signs)
    assert torch.equal(result, tensor * torch.from_numpy(signs).to(tensor.dtype))
    assert result.stride() == tensor.stride() and result.dtype == tensor.dtype
    assert torch.equal(arrays.times(tensor, -0.5), tensor * -0.5)
