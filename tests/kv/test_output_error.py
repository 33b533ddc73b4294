"""Error of attention's output by 8-bit values of normal numbers, and by nothing else."""

import pytest

pytest.importorskip("torch")

import torch

from assay.kv import contract
from assay.kv.encoded import EncodedLayer
from assay.kv.encoding import Encoding

SHAPE = (2, 4, 512, 128)


def attend(q, k, v):
    """Attention in float64."""
    weights = (q.double() @ k.double().mT / SHAPE[-1] ** 0.5).softmax(-1)
    return weights @ v.double()


def error(given, right):
    return float((given - right).norm() / right.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_error_of_k16v8_is_that_of_its_values(dtype):
    """At most 0.028, and within 2 % of attention on exactly dequantised values."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(SHAPE).to(dtype) for _ in "qkv")
    layout = contract.load("k16v8")
    read = EncodedLayer(Encoding(layout=layout)).update({"k": k, "v": v})
    assert torch.equal(read["k"], k)
    right = attend(q, k, v)
    through_cache = error(attend(q, read["k"], read["v"]), right)
    stored = layout.encode({"k": k, "v": v}, ())
    exact = stored["v"].double() * stored["v_scale"].double()
    dequantised = error(attend(q, k, exact), right)
    assert 0.02 < through_cache <= 0.028
    assert abs(through_cache / dequantised - 1) <= 0.02
