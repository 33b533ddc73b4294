"""The GELU that compiled bfloat16 models use, against float64."""

import torch
from torch.nn import functional as F

from assay.models.gpt2.gelu import CompiledGelu, gelu


def both(function, x):
    x = x.clone().requires_grad_()
    y = function(x)
    return y, torch.autograd.grad(y.sum(), x)[0]


def test_it_is_the_true_function_to_five_in_ten_million():
    x = torch.linspace(-9, 9, 40_001)
    for own, truth in zip(both(CompiledGelu.apply, x), both(F.gelu, x.double()), strict=True):
        assert (own.double() - truth).abs().max() < 5e-7


def test_bfloat16_is_as_near_to_the_truth_as_torchs_own():
    x = torch.linspace(-5, 9, 20_001).bfloat16()
    truths = both(F.gelu, x.double())
    for own, theirs, truth in zip(
        both(CompiledGelu.apply, x), both(F.gelu, x), truths, strict=True
    ):
        own, theirs = ((t.double() - truth).abs() / (truth.abs() + 1e-4) for t in (own, theirs))
        assert own.max() <= 1.1 * theirs.max()


def test_it_is_used_in_compiled_bfloat16_only():
    compiled = torch.compile(gelu, backend="eager", fullgraph=True)
    x = torch.linspace(-3, 3, 99)
    assert torch.equal(gelu(x.bfloat16()), F.gelu(x.bfloat16()))
    assert torch.equal(compiled(x), F.gelu(x))
    used = []
    whole = torch.compile(gelu, backend=lambda graph, _: used.append(graph.code) or graph.forward)
    assert torch.equal(whole(x.bfloat16()), CompiledGelu.apply(x.bfloat16()))
    assert "gelu" not in used[0] and "exp" in used[0]
