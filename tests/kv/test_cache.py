"""Caches: what is written is what is read, in order, and its bytes are exact."""

import pytest

pytest.importorskip("torch")

import torch

from assay import plugins
from assay.errors import BadInput
from assay.kv import cache, contract
from assay.kv.calibration import calibrated
from assay.kv.contract import KVSpec, State, Stream
from assay.kv.encoded import EncodedLayer
from assay.kv.encoding import Encoding

STREAMS = (
    Stream(name="k", width=4, heads=2, dtype="float32"),
    Stream(name="row", width=3, dtype="bfloat16"),
)
STATES = (State(name="sum", width=5, dtype="float32"),)


def empty(batch=2, capacity=8):
    return cache.new_cache([(STREAMS, STATES)] * 2, batch=batch, capacity=capacity, device="cpu")


def rows(tokens, *, batch=2):
    return {
        "k": torch.randn(batch, 2, tokens, 4),
        "row": torch.randn(batch, tokens, 3).to(torch.bfloat16),
    }


def test_tokens_come_back_in_order():
    made, written = empty(), []
    for tokens in (3, 1, 2):
        new = rows(tokens)
        written.append(new)
        for layer in made.layers:
            seen = layer.append(new)
        made.advance(tokens)
    for name in new:
        assert torch.equal(seen[name], torch.cat([w[name] for w in written], dim=-2))


def test_bytes_are_those_of_what_is_kept():
    made = empty(batch=3)
    assert made.nbytes == 2 * 3 * 5 * 4
    for layer in made.layers:
        layer.append(rows(5, batch=3))
    made.advance(5)
    assert made.nbytes == 2 * 3 * (5 * (2 * 4 * 4 + 3 * 2) + 5 * 4)
    assert made.allocated_bytes == 2 * 3 * (8 * (2 * 4 * 4 + 3 * 2) + 5 * 4)  # room for 8 tokens


def test_a_pass_that_ends_in_an_error_leaves_nothing():
    made = empty()
    made.layers[0].append(rows(2))
    made.layers[0].replace_state("sum", torch.ones(2, 5))
    again = rows(1)
    assert torch.equal(made.layers[0].append(again)["k"], again["k"])
    assert not made.layers[0].states["sum"].any()


def test_another_dtype_is_refused():
    with pytest.raises(BadInput, match=r"in torch\.float32, the layer gives torch\.float64"):
        empty().layers[0].append({"k": torch.zeros(2, 2, 1, 4, dtype=torch.float64)})


def test_no_room_is_refused():
    with pytest.raises(BadInput, match="0 sequences"):
        empty(batch=0)


SPEC = KVSpec(
    dtype="bfloat16",
    head_dim=64,
    key_heads=12,
    value_heads=12,
    latents=(256,),
    codes=(128,),
    rope_dims=32,
)


class Half:
    """A codec that keeps every second number."""

    code_width = 128

    def compress(self, latent):
        return latent[..., ::2]

    def expand(self, code):
        return code.repeat_interleave(2, dim=-1)


LATENTS = ("mla_latent", "splice")


@pytest.mark.parametrize("name", plugins.listing("layouts"))
def test_a_layout_counts_what_it_keeps(name):
    layout = contract.load(name)
    values = {
        stream.name: torch.randn(
            2, *([stream.heads] if stream.heads else []), 5 * layout.block, stream.width
        )
        for stream in contract.load("mla_latent" if name in LATENTS else "dense").streams(SPEC)
    }
    if name in LATENTS:
        values["latent"], values["rope"] = values["latent"].split((256, 32), dim=-1)
    values = {name: value.to(torch.bfloat16) for name, value in values.items()}
    codecs = [Half()] if name in LATENTS else []
    if layout.frozen:
        whole = EncodedLayer(Encoding(layout=contract.load("dense")))
        whole.update(values)
        whole.commit()
        codecs = calibrated([whole])
    stored = layout.encode(values, codecs)
    assert sum(s.numel() * s.element_size() for s in stored.values()) == (
        2 * 5 * layout.block * layout.bytes_per_token(SPEC)
    )
    assert {n: (str(t.dtype), t.shape[-1]) for n, t in stored.items()} == {
        s.name: (f"torch.{s.dtype}", s.width) for s in layout.streams(SPEC)
    }
    again = layout.decode(stored, codecs)
    if name in LATENTS:
        values["latent"] = torch.cat([values["latent"], values.pop("rope")], dim=-1)
    same = all(torch.equal(again[name].to(value.dtype), value) for name, value in values.items())
    assert same == layout.exact


def test_bytes_of_known_layouts():
    sizes = {name: contract.load(name).bytes_per_token(SPEC) for name in plugins.listing("layouts")}
    assert sizes["dense"] == 2 * 12 * 64 * 2
    assert sizes["mla_latent"] == (256 + 32) * 2
    assert sizes["splice"] == (128 + 32) * 2
    per_vector = {
        "k16v8": (2 * 64, 64 + 2), "k16v8_e5m2": (2 * 64, 64 + 2), "k8v16": (64 + 2, 2 * 64),
        "k8v8": (64 + 2,) * 2, "int8": (64 + 2 * 2,) * 2, "int4": (32 + 2 * 2,) * 2,
        "mxfp4": (32 + 2,) * 2, "nvfp4": (32 + 4 + 4,) * 2, "k8prebias_v8": (64 + 2,) * 2,
        "k16v8_block": (2 * 64, 64 + 2 / 16), "k16v8_frozen": (2 * 64, 64),
        "k8v8_frozen": (64,) * 2,
    }  # fmt: skip
    for name, (key, value) in per_vector.items():
        assert sizes[name] == 12 * (key + value), name
