"""Scales and shifts of a checkpoint: learning, stuck and why, prune candidates, refusals."""

import json

import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import save_file
from tiny_gpt2 import config, make
from torch.nn import functional as F

from assay.correctness.models.short_training import ShortTraining
from assay.errors import BadInput
from assay.models import splice_parameters
from assay.models.gpt2 import checkpoint, variants
from assay.models.splice_parameters import MOVED, any_learns, read_parameters


def built(name="GPT2_MLA_KV", **options):
    torch.manual_seed(0)
    return variants.model_class(name)(config(name, **options))


def codecs_of(model):
    return [codec for block in model.h for codec in block.attn.codecs]


@pytest.fixture
def rows(tmp_path):
    """Save a model with the project's own function and read its rows."""

    def read(model):
        checkpoint.save(model, tmp_path / "model.safetensors")
        return read_parameters(tmp_path / "model.safetensors")

    return read


@pytest.mark.parametrize("transform", ["affine", "spline", "none"])
def test_a_few_steps_move_every_codec(rows, transform):
    model = built(splice_transform=transform)
    ShortTraining(model, vocabulary=61, length=16)
    read = rows(model)
    assert [row["verdict"] for row in read] == ["learning"] * 4
    assert any_learns(read) and not splice_parameters.advice(read)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("transform", ["affine", "spline", "none"])
def test_what_was_not_trained_is_stuck(rows, transform, dtype):
    read = rows(built(splice_transform=transform, splice_norm=True).to(dtype))
    assert {(row["verdict"], row["reason"]) for row in read} == {
        ("stuck", splice_parameters.UNTOUCHED)
    }
    assert not any_learns(read)
    assert "assay check --models GPT2_MLA_KV`" in splice_parameters.advice(read)


def test_figures_are_those_of_the_parameters(rows):
    model = make("GPT2_MLA_KV2", splice_layers=(1, 3))
    read = rows(model)
    assert [(row["layer"], row["latent"]) for row in read] == [
        (1, "latent"), (1, "value_latent"), (3, "latent"), (3, "value_latent"),
    ]  # fmt: skip
    for row, codec in zip(read, codecs_of(model), strict=True):
        scale, shift = F.softplus(codec.transform.scale.detach()), codec.transform.shift.detach()
        assert row["scale_mean"] == pytest.approx(scale.mean().item())
        assert row["scale_deviation"] == pytest.approx(scale.var(correction=0).sqrt().item())
        assert (row["scale_min"], row["scale_max"]) == (scale.min().item(), scale.max().item())
        start = F.softplus(torch.ones(1, dtype=torch.float64))
        assert row["scale_moved"] == pytest.approx((scale - start).abs().max().item())
        assert row["shift_moved"] == shift.abs().max().item()
        assert (row["dimensions"], row["code"], row["transform"]) == (12, 6, "affine")


def test_a_fresh_scale_is_the_softplus_of_1(rows):
    row = rows(built())[0]
    assert row["scale_mean"] == pytest.approx(1.3133, abs=5e-5) and row["scale_deviation"] < 1e-12
    assert row["scale_moved"] == row["shift_moved"] == row["maps_moved"] == 0


def test_prune_candidates_are_named(rows):
    model = built()
    small = torch.tensor(0.1, dtype=torch.float64).expm1().log().float()  # whose softplus is 0.1
    with torch.no_grad():
        codecs_of(model)[0].transform.scale[[2, 5]] = small - 0.1
        codecs_of(model)[0].transform.scale[7] = small + 0.1
        codecs_of(model)[3].transform.scale[11] = -9.0
    assert [row["prunable"] for row in rows(model)] == [[2, 5], [], [], [11]]


def test_of_a_spline_all_pieces_must_be_flat(rows):
    model = built(splice_transform="spline")
    with torch.no_grad():
        codecs_of(model)[0].transform.raw_slopes[3] = -9.0
        codecs_of(model)[0].transform.raw_slopes[4, :-1] = -9.0
    assert rows(model)[0]["prunable"] == [3]


def test_weight_decay_alone_is_no_learning(rows):
    """Scales of a codec that is not in the path shrink all the same where its gradients are zeros
    and not None: by their distance from the start alone it would seem to learn."""
    model = built()
    parameters = [p for codec in codecs_of(model) for p in codec.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=0.1, weight_decay=0.1)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    for _ in range(5):
        optimizer.step()
    read = rows(model)
    assert read[0]["scale_moved"] > MOVED
    assert {row["reason"] for row in read} == {splice_parameters.DECAYED} and not any_learns(read)


def test_maps_may_learn_while_scales_stand_still(rows):
    model = built()
    for codec in codecs_of(model):
        codec.transform.requires_grad_(False)
    ShortTraining(model, vocabulary=61, length=16)
    with torch.no_grad():
        codecs_of(model)[0].transform.shift[0] = MOVED / 2
    row, *others = rows(model)
    assert (row["verdict"], row["reason"]) == ("stuck", splice_parameters.STILL)
    assert row["maps_moved"] > MOVED
    assert {other["reason"] for other in others} == {splice_parameters.STILL}


def test_a_value_that_is_not_finite_is_neither(rows):
    model = built()
    ShortTraining(model, vocabulary=61, length=16)
    with torch.no_grad():
        codecs_of(model)[1].transform.scale[0] = float("nan")
    read = rows(model)
    assert [row["verdict"] for row in read] == ["learning", "not finite", "learning", "learning"]
    assert read[1]["reason"] == "NaN or infinity in transform.scale"
    assert read[1]["scale_mean"] is None and not any_learns(read)
    json.dumps(read, allow_nan=False)


def test_reading_moves_no_draw_of_others(rows):
    model = built()
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    rows(model)
    assert torch.equal(torch.rand(3), wanted)


def test_what_has_no_codec_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    checkpoint.save(built("GPT2_MLA"), path)
    with pytest.raises(BadInput, match="holds GPT2_MLA, in which no layer has a codec"):
        read_parameters(path)
    save_file({"h.0.attn.codecs.0.transform.scale": torch.ones(4)}, path)
    with pytest.raises(BadInput, match="safetensors file of another program"):
        read_parameters(path)
    torch.save(built().state_dict(), path)
    with pytest.raises(BadInput, match="looks like a pickle"):
        read_parameters(path)
    with pytest.raises(BadInput, match="cannot read"):
        read_parameters(tmp_path / "absent")
