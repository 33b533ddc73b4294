"""KVSplice: its start, its inverse, and that it is in every path."""

import pytest

pytest.importorskip("torch")

import torch
from tiny_gpt2 import make, tokens

from assay.models.gpt2.parts.splice import MonotoneSpline


def test_a_fresh_codec_is_orthogonal_in_the_whole_model():
    """Published code set it so, then overwrote it when the model was made: gain 0.07 for 0.7."""
    for block in make("GPT2_MLA_KV", perturbed=False).h:
        (codec,) = block.attn.codecs
        gram = codec.encoder.weight @ codec.encoder.weight.T
        torch.testing.assert_close(gram, torch.eye(6).double(), rtol=0, atol=1e-5)
        assert torch.equal(codec.decoder.weight, codec.encoder.weight.T)
        latent = torch.randn(1000, 12, dtype=torch.float64)
        kept = codec.expand(codec.compress(latent)).norm() / latent.norm()
        assert 0.6 < kept < 0.8  # the root of one half


@pytest.mark.parametrize("transform", ["affine", "spline", "none"])
def test_a_whole_codec_gives_back_what_it_was_given(transform):
    model = make("GPT2_MLA_KV", perturbed=False, splice_ratio=1.0, splice_transform=transform)
    (codec,) = model.h[0].attn.codecs
    assert codec.code_width == 12
    latent = torch.randn(50, 12, dtype=torch.float64)
    torch.testing.assert_close(codec.expand(codec.compress(latent)), latent, rtol=0, atol=1e-5)


@pytest.mark.parametrize("transform", ["affine", "none"])
def test_an_expansion_as_a_matrix(transform):
    (codec,) = make("GPT2_MLA_KV", splice_transform=transform).h[0].attn.codecs
    matrix, offset = codec.ready().expansion()
    code = torch.randn(5, 6, dtype=torch.float64)
    wanted = code @ matrix.T if offset is None else code @ matrix.T + offset
    torch.testing.assert_close(codec.expand(code), wanted)


def test_a_spline_has_no_matrix():
    (codec,) = make("GPT2_MLA_KV", splice_transform="spline").h[0].attn.codecs
    assert codec.ready().expansion() is None


def test_a_spline_is_monotone_and_its_inverse_exact():
    torch.manual_seed(0)
    spline = MonotoneSpline(5, deviation=0.4).double()
    with torch.no_grad():
        for parameter in spline.parameters():
            parameter.add_(torch.randn_like(parameter))
    x = torch.linspace(-3, 3, 400, dtype=torch.float64)[:, None].repeat(1, 5)
    y = spline(x)
    assert (y.diff(dim=0) > 0).all()
    torch.testing.assert_close(spline.inverse(y), x)
    torch.testing.assert_close(
        spline.inverse(spline.knots.double()[:, None].repeat(1, 5)).shape, (7, 5)
    )


def test_a_fresh_spline_is_the_identity():
    x = torch.randn(100, 4)
    torch.testing.assert_close(MonotoneSpline(4, deviation=0.3)(x), x, rtol=0, atol=1e-5)


def test_the_gradient_of_a_spline_is_right():
    torch.manual_seed(1)
    spline = MonotoneSpline(3, deviation=1.0).double()
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    parameters = tuple(spline.parameters())
    assert torch.autograd.gradcheck(lambda x, *_: spline(x), (x, *parameters))
    assert torch.autograd.gradcheck(lambda x, *_: spline.inverse(x), (x, *parameters))


def test_only_the_named_layers_are_spliced():
    model = make("GPT2_MLA_KV", splice_layers=(0, 2))
    assert [len(block.attn.codecs) for block in model.h] == [1, 0, 1, 0]
    widths = [stream.width for block in model.h for stream in block.kept("float32")[0]]
    assert widths == [6, 12, 6, 12]


def test_codes_are_written_once():
    """Published code made the codes again from what it had read: they drifted with each step."""
    model, idx = make("GPT2_MLA_RA_KV"), tokens()
    cache = model.new_cache(2)
    model(idx[:, :5], cache=cache)
    before = [tensor.clone() for tensor in cache.tensors()]
    for i in range(5, 16):
        model(idx[:, i : i + 1], cache=cache)
    for old, new in zip(before, cache.tensors(), strict=True):
        assert torch.equal(old, new[..., :5, :])


def test_the_normed_code_is_normed():
    (codec,) = make("GPT2_MLA_KV", perturbed=False, splice_norm=True).h[0].attn.codecs
    code = codec.compress(torch.randn(7, 12, dtype=torch.float64))
    torch.testing.assert_close(code.mean(-1), torch.zeros(7).double())
    torch.testing.assert_close(
        code.var(-1, unbiased=False), torch.ones(7).double(), rtol=0, atol=1e-3
    )
