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


# [B, H, S, D] = [2, 4, 6, 8]: the strides, in elements, and where the first element is.
STRIDES = {
    "transposed": ((192, 8, 32, 1), 0),  # [B, S, H, D]
    "headsfirst": ((48, 96, 8, 1), 0),  # [H, B, S, D]
    "qkvpacked": ((576, 8, 96, 1), 32),  # [B, S, 3, H, D]: 3 H D from token to token
    "kvstacked": ((192, 48, 8, 1), 384),  # [2, B, H, S, D]
    "kvrows": ((384, 8, 64, 1), 32),  # [B, S, 2, H, D]
    "wide": ((384, 96, 16, 1), 8),  # [B, H, S, 2D]
    "sliced": ((384, 96, 8, 1), 48),  # [B, H, 2S, D]
    "offset": ((192, 48, 8, 1), 1),
}


@pytest.mark.parametrize("layout", STRIDES)
def test_arrays_lie_in_memory_as_models_make_them(layout):
    values = np.random.default_rng(0).standard_normal((2, 4, 6, 8)).astype(np.float32)
    tensor = arrays.place(values, "float32", "cpu", layout)
    assert (tensor.stride(), tensor.storage_offset()) == STRIDES[layout]
    assert (tensor.numpy() == values).all()


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
