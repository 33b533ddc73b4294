"""Layers in an encoding: windows, blocks and biases, their bytes, and what is read of them."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch

from assay import plugins
from assay.errors import BadInput
from assay.kv import contract
from assay.kv.calibration import calibrated
from assay.kv.encoded import WHOLE, EncodedLayer
from assay.kv.encoding import Encoding, encodings
from assay.kv.key_bias import KeyBias

HEADS, WIDTH = 3, 64
SPEC = contract.KVSpec(dtype="bfloat16", head_dim=WIDTH, key_heads=HEADS, value_heads=HEADS)
DENSE = contract.load("dense").bytes_per_token(SPEC)
LAYOUTS = [
    name
    for name in plugins.listing("layouts")
    if "v" in {stream.name for stream in contract.load(name).streams(SPEC)}
]


def rotation(positions):
    """Angles of Llama, in float64 so that identities can be held to it."""
    frequencies = 10_000.0 ** -(torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    angles = torch.cat([positions[:, None] * frequencies] * 2, dim=-1)
    return angles.cos(), angles.sin()


def encoding(name, *, residual=0):
    layout = contract.load(name)
    bias = KeyBias(bias=torch.randn(HEADS, WIDTH), rotation=rotation)
    return Encoding(
        layout=layout,
        residual=residual,
        key_bias=bias if layout.key_bias else None,
        scales=scales_of(tokens(20, seed=9)) if layout.frozen else None,
    )


def scales_of(values):
    dense = EncodedLayer(Encoding(layout=contract.load("dense")))
    dense.update(values)
    dense.commit()
    (scales,) = calibrated([dense])
    return scales


def tokens(count, *, batch=2, seed=0, dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, HEADS, count, WIDTH)
    return {name: torch.randn(shape, generator=generator).to(dtype) for name in "kv"}


def split(values, sizes):
    parts = {name: value.split(sizes, dim=-2) for name, value in values.items()}
    return [{name: parts[name][i] for name in parts} for i in range(len(sizes))]


def filled(layer, values, sizes):
    for part in split(values, sizes):
        read = layer.update(part)
        layer.commit()
    return read


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("residual", [0, 5, 40])
def test_bytes_are_the_formulas_at_every_length(name, residual):
    kept = encoding(name, residual=residual)
    per_token, block = kept.layout.bytes_per_token(SPEC), kept.layout.block
    layer = EncodedLayer(kept)
    values = tokens(77)
    length = 0
    for part in split(values, [1, 31, 1, 16, 1, 27]):
        length += part["v"].shape[-2]
        read = layer.update(part)
        layer.commit()
        sealed = (length - residual) // block * block if length > residual else 0
        assert layer.nbytes == 2 * (sealed * per_token + (length - sealed) * DENSE)
        assert read["k"].shape == read["v"].shape == (2, HEADS, length, WIDTH)
    newest = {name: value[..., sealed:, :] for name, value in values.items()}
    assert all(torch.equal(read[n][..., sealed:, :], v) for n, v in newest.items())
    assert torch.equal(read["k"], values["k"]) == (sealed == 0 or "k16" in name or name == "dense")


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_prefix_has_the_same_bytes_whatever_follows_and_however_it_came(name):
    kept = encoding(name, residual=3)
    prefix, others = tokens(40), (tokens(30, seed=1), tokens(30, seed=2))
    stored = []
    for other, sizes in zip(others, ([40], [7, 1, 32]), strict=True):
        layer = EncodedLayer(kept)
        filled(layer, prefix, sizes)
        filled(layer, other, [1, 29])
        stored.append(layer.stored(kept.sealed(40)))
    for stream in stored[0]:
        first, second = (each[stream].contiguous().view(torch.uint8) for each in stored)
        assert torch.equal(first, second), stream


def test_what_is_read_is_counted():
    layer = EncodedLayer(encoding("k16v8", residual=4))
    filled(layer, tokens(10), [8, 1, 1])
    read = 4 + 5 + 6  # tokens that were encoded at each step
    assert layer.reads == {
        "k": 2 * HEADS * WIDTH * 2 * read,
        "v": 2 * HEADS * WIDTH * read,
        "v_scale": 2 * HEADS * 2 * read,
        WHOLE: 3 * 2 * 4 * DENSE,
    }


def test_a_pass_that_is_not_committed_leaves_nothing():
    layer = EncodedLayer(encoding("int8", residual=2))
    filled(layer, tokens(6), [6])
    before = layer.nbytes
    layer.update(tokens(3, seed=1))
    again = layer.update(tokens(2, seed=2))
    layer.commit()
    other = EncodedLayer(encoding("int8", residual=2))
    filled(other, tokens(6), [6])
    right = other.update(tokens(2, seed=2))
    assert before < layer.nbytes and layer.length == 8
    assert all(torch.equal(again[name], right[name]) for name in right)


def test_sequences_are_chosen_and_tokens_taken_off():
    layer = EncodedLayer(encoding("k8v8"))
    values = tokens(9)
    filled(layer, values, [9])
    layer.select(lambda tensor: tensor.index_select(0, torch.tensor([1, 1, 0])))
    layer.crop(5)
    assert layer.length == 5 and layer.nbytes == 3 * 5 * layer.encoding.layout.bytes_per_token(SPEC)
    new = {n: v[[1, 1, 0]] for n, v in tokens(1, seed=3).items()}
    read = layer.update(new)["v"]
    right = EncodedLayer(encoding("k8v8"))
    filled(right, {n: v[[1, 1, 0], :, :5] for n, v in values.items()}, [5])
    assert torch.equal(read, right.update(new)["v"])
    whole = EncodedLayer(encoding("k8v8", residual=4))
    filled(whole, values, [9])
    with pytest.raises(BadInput, match="cannot be cut to 3"):
        whole.crop(3)


@pytest.mark.parametrize(
    "change",
    [
        lambda values: {n: v.float() for n, v in values.items()},
        lambda values: {n: v[:1] for n, v in values.items()},
        lambda values: {n: v[:, :2] for n, v in values.items()},
        lambda values: {"k": values["k"], "v": values["v"][..., :32]},
    ],
)
def test_tokens_of_another_kind_are_refused(change):
    layer = EncodedLayer(encoding("k16v8"))
    filled(layer, tokens(4), [4])
    with pytest.raises(BadInput, match="make a cache for these"):
        layer.update(change(tokens(1)))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda kept: {**kept, "v_scale": kept["v_scale"].half()},
        lambda kept: {**kept, "more": kept["v"]},
        lambda kept: {"k": kept["k"], "v": kept["v"]},
        lambda kept: {**kept, "v": kept["v"][..., :32]},
    ],
)
def test_a_layout_that_encodes_otherwise_than_it_says_is_refused(wrong):
    own = contract.load("k16v8")
    lying = replace(own, encode=lambda values, codecs=(): wrong(own.encode(values, codecs)))
    with pytest.raises(BadInput, match=r"layout k16v8 encodes .* and its streams are"):
        EncodedLayer(Encoding(layout=lying)).update(tokens(3))


def test_layouts_that_want_more_are_refused_without_it():
    with pytest.raises(BadInput, match="without their bias, and none is given"):
        encodings("k8prebias_v8", 2)
    with pytest.raises(BadInput, match="3 layouts for 2 layers"):
        encodings(["dense"] * 3, 2)
    with pytest.raises(BadInput, match="window of -1 tokens"):
        encodings("dense", 2, residual=-1)


def test_frozen_scales_are_those_of_the_heads_and_never_move():
    values = tokens(40, dtype=torch.float32)
    values["v"][:, 1] *= 100
    scales = scales_of(values)
    sizes = values["v"].abs().amax((0, 2, 3)) / 448
    assert torch.equal(scales.formats["v"].scale[:, 0, 0], sizes)
    kept = Encoding(layout=contract.load("k8v8_frozen"), scales=scales)
    layer = EncodedLayer(kept)
    read = layer.update(values)["v"]
    layer.commit()
    for head in range(HEADS):  # each by its own scale
        error = (read - values["v"])[:, head].norm() / values["v"][:, head].norm()
        assert 0.01 < error < 0.03
    beyond = layer.update({n: 10 * v[:, :, :1] for n, v in values.items()})["v"][:, :, -1]
    largest = values["v"].abs().amax((0, 2, 3))
    assert (beyond.abs().amax((0, 2)) <= largest * 1.001).all()  # clipped, and no NaN
    with pytest.raises(BadInput, match="scales that moved"):
        layer.encoding = Encoding(layout=kept.layout, scales=scales_of(tokens(5)))
    with pytest.raises(BadInput, match="settled before the first token"):
        encodings("k16v8_frozen", 1)
    with pytest.raises(BadInput, match="calibrate from one in dense"):
        calibrated([layer])


def test_a_bias_that_takes_the_scale_is_kept_out_of_it():
    """With a bias of 414 and tokens of size 1, 8-bit keys are all but the bias alone; without it
    they are as good as those of a layer that has none."""
    bias = torch.zeros(HEADS, WIDTH)
    bias[:, 3] = 414.0
    kept = KeyBias(bias=bias, rotation=rotation)
    residual = tokens(64, batch=1, dtype=torch.float32)["k"]
    keys = residual + kept.rotated(0, 64).float()
    values = {"k": keys, "v": residual}
    errors = {}
    for name in ("k8v8", "k8prebias_v8"):
        layout = contract.load(name)
        layer = EncodedLayer(Encoding(layout=layout, key_bias=kept if layout.key_bias else None))
        errors[name] = float((layer.update(values)["k"] - keys).norm() / residual.norm())
    plain = EncodedLayer(Encoding(layout=contract.load("k8v8")))
    floor = plain.update({"k": residual, "v": residual})["k"] - residual
    floor = float(floor.norm() / residual.norm())
    assert errors["k8v8"] > 9 * errors["k8prebias_v8"]
    assert errors["k8prebias_v8"] < 1.1 * floor


@pytest.mark.parametrize("turning", [WIDTH, WIDTH // 2, 0])
@pytest.mark.parametrize("group", [1, 3])
def test_scores_are_corrected_exactly(turning, group):
    """Whole, partial and no rotation; query heads that share a kv head."""

    def partial(positions):
        cos, sin = rotation(positions)
        half = turning // 2
        pick = torch.cat([torch.arange(half), torch.arange(half) + WIDTH // 2])
        return cos[:, pick], sin[:, pick]

    bias = KeyBias(bias=10 * torch.randn(HEADS, WIDTH), rotation=partial if turning else None)
    q = torch.randn(2, HEADS * group, 5, WIDTH)
    kept = torch.randn(2, HEADS, 19, WIDTH)
    keys = (kept + bias.rotated(7, 19).float()).repeat_interleave(group, dim=1)
    bare = q @ kept.repeat_interleave(group, dim=1).mT
    corrected = bare + bias.score_correction(q, 7, 19).float()
    assert torch.allclose(corrected, q @ keys.mT, atol=2e-3, rtol=1e-5)
    assert not torch.allclose(bare, q @ keys.mT, atol=1.0)
