"""Models that decode through kernels of attention/decode: the same logits as without, by every way.

Kernels run in Triton's interpreter here, in float32; on a GPU they are what `auto` means.
"""

from importlib.util import find_spec

import pytest
import torch

from assay.errors import BadInput
from assay.kv.device_place import DevicePlace
from assay.models.gpt2 import graphed_steps, variants

pytestmark = pytest.mark.skipif(not find_spec("triton"), reason="Triton is not installed")

LATENT = {"n_layers": 2, "n_heads": 4, "head_dim": 16, "d_model": 64, "d_latent": 32}
DENSE = {"n_layer": 2, "n_head": 4, "n_embd": 64}
KERNELS = {
    "GPT2": "dense",
    "GPT2_RA": "dense",
    "GPT2_MLA": "mla_latent",
    "GPT2_MLA_RA": "mla_latent",
    "GPT2_MLA_ROPE": "mla_latent",
    "GPT2_MLA_KV": "splice",
    "GPT2_MLA_RA_KV": "splice",
    "GPT2_MLA2": "dense",
    "GPT2_MLA_KV2": "dense",
}
PROMPT, STEPS, BATCH = 17, 2, 2


def made(name: str, **options) -> torch.nn.Module:
    variant = variants.parse(name)
    size = {**LATENT, "rope_dims": 8} if variant.latent else DENSE
    config = variants.config_class(variant)(block_size=32, vocab_size=61, **{**size, **options})
    torch.manual_seed(3)
    model = variants.model_class(variant)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def tokens() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(61, (BATCH, PROMPT + STEPS), generator=generator)


@torch.no_grad()
def decoded(model, idx, **cache_options) -> tuple[torch.Tensor, object]:
    """Logits of the steps behind a prompt, and the cache."""
    cache = model.new_cache(BATCH, **cache_options)
    model(idx[:, :PROMPT], cache=cache)
    steps = [model(idx[:, i : i + 1], cache=cache)[0] for i in range(PROMPT, PROMPT + STEPS)]
    return torch.cat(steps, dim=1), cache


@pytest.mark.parametrize("name", KERNELS)
def test_steps_through_a_kernel_are_those_of_a_whole_pass(name):
    model, idx = made(name), tokens()
    logits, cache = decoded(model, idx, decoder=KERNELS[name])
    with torch.no_grad():
        whole = model(idx)[0][:, PROMPT:]
    assert (logits - whole).abs().max() < 1e-5 * whole.abs().max()
    assert cache.nbytes == model.cache_bytes(BATCH, PROMPT + STEPS)


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernel_was_in_the_path(name, monkeypatch):
    """A kernel that answers zeros moves the logits: without this the test above could hold with no
    kernel at all."""
    from assay.attention.decode._split_kv.launch import Launch

    model, idx = made(name), tokens()
    right, _ = decoded(model, idx, decoder=KERNELS[name])
    monkeypatch.setattr(Launch, "run", lambda launch: launch.out.zero_())
    wrong, _ = decoded(model, idx, decoder=KERNELS[name])
    assert (right - wrong).abs().max() > 1e-2 * right.abs().max()


@pytest.mark.sampled
@pytest.mark.parametrize("layout", ["k16v8", "k8v8", "int8"])
def test_an_encoded_cache_is_read_as_it_is_kept(layout):
    """As through the decoded cache, but for the order of additions; every byte is counted once."""
    model, idx = made("GPT2", **({"n_head": 2} if layout == "int8" else {})), tokens()
    own, cache = decoded(model, idx, layout=layout, decoder=layout)
    decoded_whole, other = decoded(model, idx, layout=layout)
    assert (own - decoded_whole).abs().max() < 1e-5 * own.abs().max()
    reads = [layer.encoded.reads for layer in cache.layers]
    assert reads == [layer.encoded.reads for layer in other.layers]
    assert cache.nbytes == other.nbytes == model.cache_bytes(BATCH, PROMPT + STEPS, layout=layout)


def test_several_new_tokens_go_through_the_kernel_too():
    model, idx = made("GPT2_MLA"), tokens()
    cache = model.new_cache(BATCH, decoder="mla_latent")
    with torch.no_grad():
        model(idx[:, :9], cache=cache)
        logits = model(idx[:, 9:], cache=cache)[0]
        whole = model(idx)[0][:, 9:]
    assert (logits - whole).abs().max() < 1e-5 * whole.abs().max()


@pytest.mark.parametrize("layout", [None, "k16v8"])
@pytest.mark.parametrize("name", ["GPT2", "GPT2_MLA", "GPT2_MLA_KV"])
def test_steps_that_stand_on_the_device_are_the_same(name, layout):
    """A step that a graph replays writes where a number on the device says, and reads whole buffers
    by lengths; what lies behind them, here NaN, does not matter."""
    if layout and name != "GPT2":
        pytest.skip("latents have the layout that they were built with")
    model, idx = made(name), tokens()
    wanted, _ = decoded(model, idx, layout=layout)
    cache = model.new_cache(BATCH, layout=layout)
    place = DevicePlace.make(BATCH, "cpu")
    with torch.no_grad():
        model(idx[:, :PROMPT], cache=cache)
        for layer in cache.layers:
            for buffer in (layer.encoded or layer).buffers.values():
                buffer.view(torch.uint8)[..., PROMPT:, :] = 0x7F
        place.put(PROMPT)
        logits = []
        with cache.placed(place):
            for i in range(PROMPT, PROMPT + STEPS):
                logits.append(model(idx[:, i : i + 1], cache=cache)[0])
        cache.count(STEPS)
    assert (torch.cat(logits, dim=1) - wanted).abs().max() < 1e-5 * wanted.abs().max()
    assert place.position.item() == PROMPT + STEPS == cache.length
    assert cache.nbytes == model.cache_bytes(BATCH, PROMPT + STEPS, layout=layout)
    after = model(torch.zeros(BATCH, 1, dtype=torch.int64), cache=cache)[0]  # and on from there
    assert after.isfinite().all()


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("GPT2", {}, "without a GPU"),
        ("GPT2_MLA", {}, "without a GPU"),
        ("GPT2", {"decoder": "torch"}, "asked to decode without kernels"),
        ("GPT2", {"layout": "k16v8_block"}, "no kernel reads k16v8_block as it is kept"),
        ("GPT2", {"layout": "k16v8", "residual": 4}, "no kernel reads k16v8 as it is kept"),
        ("GPT2", {"layout": "k16v8"}, "its cache is empty"),
        ("GPT2_MLA_ROPE", {}, "turned by the host's count"),
        ("GPT2_MLA2_RA", {}, "keeps queries beside latents"),
        ("GPT2_RABAND", {}, "keys and queries of earlier tokens together"),
        ("GPT2_RACT", {}, "keeps weights in memory"),
        ("GPT2_MG", {}, "hand on more than the stream"),
    ],
)
def test_what_cannot_be_replayed_says_why(name, options, reason):
    model = made(name)
    cache = model.new_cache(BATCH, **options)
    assert reason in graphed_steps.why_not(model, cache)
    assert model.graphed_steps(cache) is None
    with pytest.raises(BadInput, match=reason):
        graphed_steps.GraphedSteps(model, cache)


@pytest.mark.parametrize("name", ["GPT2_MLA", "GPT2_MLA2"])
def test_a_long_prompt_goes_without_the_kernel_that_is_named(name):
    """Of many new tokens heads are made of the latents, which are no cache: a kernel that reads
    latents was looked for there and refused."""
    model = made(name, d_latent=128)
    idx = torch.randint(61, (BATCH, 30), generator=torch.Generator().manual_seed(2))
    assert not model.h[0].attn.source._pays_to_absorb(29)
    cache = model.new_cache(BATCH, decoder=KERNELS[name])
    with torch.no_grad():
        model(idx[:, :29], cache=cache)
        assert not any(layer.kernels for layer in cache.layers)
        logits = model(idx[:, 29:], cache=cache)[0]
        whole = model(idx)[0][:, 29:]
    assert (logits - whole).abs().max() < 1e-5 * whole.abs().max()


@pytest.mark.parametrize(
    ("name", "cache_options", "reason"),
    [
        ("GPT2", {"decoder": "int4"}, "it reads int4, not dense"),
        ("GPT2", {"layout": "k16v8", "decoder": "dense"}, "it reads dense, not k16v8"),
        ("GPT2", {"decoder": "nothing"}, "nothing"),
        ("GPT2_MLA", {"decoder": "splice"}, "it reads splice, not mla_latent"),
    ],
)
def test_a_kernel_of_another_layout_is_refused_in_words(name, cache_options, reason):
    with pytest.raises(BadInput, match=reason):
        decoded(made(name), tokens(), **cache_options)


def test_gradients_reach_a_model_that_is_called_with_a_cache():
    """Kernels have no backward pass: a pass to learn from does not go through them."""
    model, idx = made("GPT2_MLA").train(), tokens()
    cache = model.new_cache(BATCH, decoder="mla_latent")
    _, loss, _ = model(idx[:, :4], idx[:, 1:5], cache=cache)
    loss.backward()
    attn = model.h[0].attn
    learned = (attn.source.c_q.weight, attn.source.from_latent["latent"].weight, attn.c_proj.weight)
    assert all(weight.grad is not None and weight.grad.any() for weight in learned)
