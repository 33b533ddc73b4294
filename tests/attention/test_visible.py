"""Who sees whom in torch, against the one place that says it in NumPy."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from assay.attention import reference
from assay.attention.sequence import eager
from assay.attention.sequence._visible import visible
from assay.workloads import visibility

CPU = torch.device("cpu")


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 1, 4, 50])
@pytest.mark.parametrize("lengths", [(7, 7), (3, 9), (9, 3), (1, 5)])
def test_causal_and_window(lengths, window, causal):
    found = visible(*lengths, device=CPU, causal=causal, window=window)
    expected = visibility.visibility_mask(*lengths, causal=causal, window=window or 0)
    assert found.shape == (1, 1, *lengths) and np.array_equal(found[0, 0], expected)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 2])
def test_packed_sequences_of_which_some_are_empty(window, causal):
    starts = [np.array(s, dtype=np.int32) for s in ([0, 4, 4, 9, 12, 12], [0, 6, 9, 9, 11, 14])]
    cu_seqlens = tuple(map(torch.from_numpy, starts))
    found = visible(12, 14, device=CPU, causal=causal, window=window, cu_seqlens=cu_seqlens)
    expected = visibility.packed_visibility_mask(*starts, causal=causal, window=window or 0)
    assert np.array_equal(found[0, 0], expected)


def test_lengths_and_a_mask_hide_more():
    mask = torch.rand(1, 3, 5, 6, generator=torch.Generator().manual_seed(0)) < 0.5
    lengths = torch.tensor([0, 6, 2], dtype=torch.int32)
    found = visible(5, 6, device=CPU, causal=True, lengths=lengths, mask=mask)
    assert found.shape == (3, 3, 5, 6) and not found[0].any()
    causal = torch.from_numpy(visibility.visibility_mask(5, 6, causal=True))
    assert torch.equal(found[1], mask[0] & causal)
    assert torch.equal(found[2], mask[0] & causal & (torch.arange(6) < 2))


def test_eager_with_everything_at_once():
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(2, h, n, 8, generator=generator) for h, n in ((4, 9), (2, 11), (2, 11)))
    extras = {
        "mask": torch.rand(2, 4, 9, 11, generator=generator) < 0.6,
        "lengths": torch.tensor([11, 3], dtype=torch.int32),
        "window": 7,
    }
    seen = visible(9, 11, device=CPU, causal=True, **extras).numpy()
    expected = reference.attention(
        *(t.numpy() for t in (q, k, v)), causal=True, scale=0.3, visible=seen
    )
    out, lse = eager.attention(q, k, v, causal=True, scale=0.3, lse=True, **extras)
    assert np.allclose(out, expected.out, atol=1e-5) and np.isneginf(expected.lse).any()
    assert np.allclose(lse, expected.lse, atol=1e-5)
