"""Masks of implementations, in torch and JAX, against the reference's mask in NumPy."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from assay.attention import reference
from assay.attention.sequence import eager
from assay.attention.sequence._visibility import visibility_mask
from assay.workloads import visibility

STARTS = [np.array(s, dtype=np.int32) for s in ([0, 4, 4, 9, 12, 12], [0, 6, 9, 9, 11, 14])]


@pytest.fixture(params=["torch", "jax"])
def library(request):
    """A function that makes indices, and one that makes an array of NumPy's."""
    if request.param == "torch":
        return torch.arange, torch.from_numpy
    numpy = pytest.importorskip("jax.numpy")
    return numpy.arange, numpy.asarray


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 1, 4, 50])
@pytest.mark.parametrize("lengths", [(7, 7), (3, 9), (9, 3), (1, 5)])
def test_causal_and_window(library, lengths, window, causal):
    mask = visibility_mask(*lengths, arange=library[0], causal=causal, window=window)
    expected = visibility.visibility_mask(*lengths, causal=causal, window=window or 0)
    assert mask.shape == (1, 1, *lengths) and np.array_equal(mask[0, 0], expected)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 2])
def test_packed_sequences_of_which_some_are_empty(library, window, causal):
    arange, from_numpy = library
    limits = {"causal": causal, "cu_seqlens": tuple(map(from_numpy, STARTS))}
    mask = visibility_mask(12, 14, arange=arange, window=window, **limits)
    expected = visibility.packed_visibility_mask(*STARTS, causal=causal, window=window or 0)
    assert np.array_equal(mask[0, 0], expected)


def test_lengths_and_a_mask_hide_more(library):
    arange, from_numpy = library
    own = np.random.default_rng(0).random((1, 3, 5, 6)) < 0.5
    lengths = from_numpy(np.array([0, 6, 2], dtype=np.int32))
    limits = {"lengths": lengths, "mask": from_numpy(own)}
    mask = np.asarray(visibility_mask(5, 6, arange=arange, causal=True, **limits))
    assert mask.shape == (3, 3, 5, 6) and not mask[0].any()
    causal = visibility.visibility_mask(5, 6, causal=True)
    assert np.array_equal(mask[1], own[0] & causal)
    assert np.array_equal(mask[2], own[0] & causal & (np.arange(6) < 2))


def test_eager_with_everything_at_once():
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(2, h, n, 8, generator=generator) for h, n in ((4, 9), (2, 11), (2, 11)))
    extras = {
        "mask": torch.rand(2, 4, 9, 11, generator=generator) < 0.6,
        "lengths": torch.tensor([11, 3], dtype=torch.int32),
        "window": 7,
    }
    visible = visibility_mask(9, 11, arange=torch.arange, causal=True, **extras).numpy()
    setting = {"causal": True, "scale": 0.3}
    expected = reference.attention(*(t.numpy() for t in (q, k, v)), **setting, visible=visible)
    out, lse = eager.attention(q, k, v, **setting, lse=True, **extras)
    assert np.allclose(out, expected.out, atol=1e-5) and np.isneginf(expected.lse).any()
    assert np.allclose(lse, expected.lse, atol=1e-5)
