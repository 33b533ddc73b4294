"""Models read their own keys and values through the layout that a cache keeps."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from tiny_gpt2 import decode, make, tokens

from assay import plugins
from assay.errors import BadInput
from assay.kv import contract
from assay.models.gpt2 import variants

# Layouts of keys and values; the others are of latents.
LAYOUTS = [
    name
    for name in plugins.listing("layouts")
    if not contract.load(name).frozen and "v" in {s.name for s in contract.load(name).streams(
        contract.KVSpec(dtype="float32", head_dim=32, key_heads=1, value_heads=1)
    )}
]  # fmt: skip
CONTROLS = ("dense", "k8v16", "k16v8", "k8v8")
MODELS = ("GPT2", "GPT2_RA")
SIZE = {"n_embd": 64, "n_head": 2, "block_size": 40}


def model_of(name, dtype=torch.float32):
    return make(name, **SIZE).to(dtype)


def zeros(layout, *names):
    """The layout with zeros written in the place of what it keeps of some tensors."""

    def encode(values, codecs=()):
        values = {n: torch.zeros_like(v) if n in names else v for n, v in values.items()}
        return layout.encode(values, codecs)

    return replace(layout, encode=encode)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MODELS)
def test_steps_read_what_one_pass_reads_and_bytes_are_exact(name, layout):
    """In float64: on one machine of two, float32 rounded a key differently in a step than in a
    pass, and FP8 made a whole step of its own of that."""
    model, idx, own = model_of(name, torch.float64), tokens(2, 32), contract.load(layout)
    whole = decode(model, idx, [32], layout=layout)
    chunks = [7, 1, 3, 1, 20] if own.block == 1 else [own.block] * (32 // own.block)
    stepped = decode(model, idx, chunks, layout=layout)
    assert torch.allclose(stepped, whole, atol=1e-6)
    plain = decode(model, idx, [32])
    assert torch.equal(whole, plain) == own.exact
    for dtype in (torch.float32, torch.bfloat16):
        narrow = model_of(name, dtype)
        for length, residual in ((1, 0), (5, 2), (16, 0), (40, 9)):
            cache = narrow.new_cache(3, layout=layout, residual=residual)
            with torch.no_grad():
                narrow(tokens(3, length), cache=cache)
            formula = narrow.cache_bytes(3, length, layout=layout, residual=residual)
            assert cache.nbytes == formula


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_destroyed_in_the_cache_moves_the_output(name, layout):
    """Else attention reads something else than the cache."""
    model, idx, own = model_of(name), tokens(2, 32), contract.load(layout)
    right = decode(model, idx, [16, 16], layout=layout)
    for side in ("k", "v"):
        moved = decode(model, idx, [16, 16], layout=zeros(own, side)) - right
        assert moved.abs().max() > 0.1 * right.abs().max(), side


def test_fewer_bits_of_keys_and_values_cost_what_they_should():
    """The four controls: nothing, keys, values, both; and both in four bits are worst."""
    model, idx = model_of("GPT2"), tokens(4, 16)
    plain = decode(model, idx, [16])
    error = {
        name: float((decode(model, idx, [16], layout=name) - plain).norm() / plain.norm())
        for name in LAYOUTS
    }
    assert error["dense"] == 0 and min(error[name] for name in CONTROLS[1:]) > 0
    assert max(error["k8v16"], error["k16v8"]) < 1.5 * error["k8v8"]
    assert error["int8"] < error["k8v8"] < min(error[n] for n in ("int4", "mxfp4", "nvfp4"))


def test_layers_may_have_layouts_of_their_own():
    model, idx = model_of("GPT2"), tokens(2, 16)
    mixed = ["dense", "int4", "dense", "k8v8"]
    cache = model.new_cache(2, layout=mixed)
    with torch.no_grad():
        model(idx, cache=cache)
    kept = [layer.encoded.nbytes for layer in cache.layers]
    alone = [model.cache_bytes(2, 16, layout=name) // 4 for name in mixed]
    assert kept == alone and cache.nbytes == model.cache_bytes(2, 16, layout=mixed)


def test_a_window_of_whole_tokens_is_read_whole():
    """With a window as long as the sequence nothing is encoded; with a shorter one, something."""
    model, idx = model_of("GPT2", torch.float64), tokens(2, 24)
    plain = decode(model, idx, [1] * 24)
    error = {
        residual: float(
            (decode(model, idx, [1] * 24, layout="int4", residual=residual) - plain).norm()
        )
        for residual in (0, 8, 24)
    }
    assert error[24] < 1e-9 < error[8] < error[0]


@pytest.mark.parametrize("layout", ["k16v8", "int4"])
def test_the_same_prefix_gives_the_same_bytes(layout):
    model, idx = model_of("GPT2"), tokens(2, 16)
    other = torch.cat([idx[:, :9], tokens(2, 7, seed=5)], dim=1)
    kept = []
    for each in (idx, other):
        cache = model.new_cache(2, layout=layout)
        with torch.no_grad():
            model(each[:, :9], cache=cache)
            model(each[:, 9:], cache=cache)
        kept.append([
            rows.contiguous().view(torch.uint8)
            for layer in cache.layers
            for rows in layer.encoded.stored(9).values()
        ])  # fmt: skip
    assert all(torch.equal(*pair) for pair in zip(*kept, strict=True))


def test_keys_that_are_kept_whole_are_those_of_a_dense_cache():
    model, idx = model_of("GPT2", torch.bfloat16), tokens(2, 16)
    caches = [model.new_cache(2), model.new_cache(2, layout="k16v8")]
    with torch.no_grad():
        for cache in caches:
            model(idx, cache=cache)
    dense = caches[0].layers[0].buffers["k"][:, :, :16]
    mixed = caches[1].layers[0].encoded.stored(16)["k"]
    assert torch.equal(dense, mixed)  # of the first layer; later ones read other values


@pytest.mark.parametrize(
    ("model", "layout", "words"),
    [
        ("GPT2_MLA", "k16v8", "layout k16v8 cannot stand for mla_latent"),
        ("GPT2", "mla_latent", "layout mla_latent keeps no keys and values"),
        ("GPT2", "k4v2", "k4v2"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(model, layout, words):
    with pytest.raises(BadInput, match=words):
        make(model, **({} if variants.parse(model).latent else SIZE)).new_cache(1, layout=layout)


def test_heads_that_are_no_whole_groups_are_refused():
    with pytest.raises(BadInput, match="vectors of 8 numbers are no whole groups of 32"):
        make("GPT2").new_cache(1, layout="int4")
