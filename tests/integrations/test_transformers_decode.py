"""Models of transformers whose caches kernels read as they are kept, in Triton's interpreter."""

from importlib.util import find_spec

import pytest
import torch

transformers = pytest.importorskip("transformers")
if not find_spec("triton"):
    pytest.skip("Triton is not installed", allow_module_level=True)

from assay.errors import BadInput
from assay.integrations.transformers import LayoutCache, register_decode

LAYOUTS = ("k16v8", "k8v8", "int4")


@pytest.fixture(scope="module")
def model():
    config = transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=128, intermediate_size=64, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=61, max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).eval()


@torch.no_grad()
def steps(model, ids, cache, *, prompt=21) -> torch.Tensor:
    """Logits behind a prompt, token by token."""
    model(ids[:, :prompt], past_key_values=cache, use_cache=True)
    return torch.cat(
        [
            model(ids[:, i : i + 1], past_key_values=cache, use_cache=True).logits
            for i in range(prompt, ids.shape[1])
        ],
        dim=1,
    )


def ids(batch=2, count=24) -> torch.Tensor:
    return torch.randint(61, (batch, count), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_kernels_read_what_is_kept(model, layout, monkeypatch):
    """The same logits as through the decoded cache, the same bytes counted, and other logits where
    the kernel answers nothing: it was in the path."""
    from assay.attention.decode._split_kv.launch import Launch

    model.set_attn_implementation("sdpa")
    whole = LayoutCache(model, layout)
    wanted = steps(model, ids(), whole)
    model.set_attn_implementation(register_decode())
    cache = LayoutCache(model, layout, decoder=layout)
    logits = steps(model, ids(), cache)
    assert (logits - wanted).abs().max() < 1e-5 * wanted.abs().max()
    assert cache.reads == whole.reads
    assert cache.nbytes == whole.nbytes
    monkeypatch.setattr(Launch, "run", lambda launch: launch.out.zero_())
    wrong = steps(model, ids(), LayoutCache(model, layout, decoder=layout))
    assert (wrong - wanted).abs().max() > 1e-3 * wanted.abs().max()


@pytest.mark.parametrize("layout", ["k16v8", "k16v8_block", "dense"])
def test_without_a_kernel_it_is_torchs_attention(model, layout):
    model.set_attn_implementation("sdpa")
    wanted = steps(model, ids(), LayoutCache(model, layout))
    model.set_attn_implementation(register_decode())
    assert torch.equal(steps(model, ids(), LayoutCache(model, layout)), wanted)


def test_chunks_of_a_prompt_and_padding(model):
    """A chunk behind others sees what it should, through the kernel and without; a padded batch has
    a mask and goes without."""
    model.set_attn_implementation("sdpa")
    with torch.no_grad():
        wanted = model(ids()).logits[:, 18:]
    model.set_attn_implementation(register_decode())
    for decoder in ("auto", "int8"):
        cache = LayoutCache(model, "int8", decoder=decoder)
        with torch.no_grad():
            model(ids()[:, :18], past_key_values=cache, use_cache=True)
            logits = model(ids()[:, 18:], past_key_values=cache, use_cache=True).logits
        assert (logits - wanted).abs().max() < 0.05 * wanted.abs().max()
    padded = torch.ones(2, 24, dtype=torch.int64)
    padded[0, :3] = 0
    generated = model.generate(
        ids(), attention_mask=padded, past_key_values=LayoutCache(model, "int8", decoder="int8"),
        max_new_tokens=3, do_sample=False, pad_token_id=0,
    )  # fmt: skip
    model.set_attn_implementation("sdpa")
    again = model.generate(
        ids(), attention_mask=padded, past_key_values=LayoutCache(model, "int8"),
        max_new_tokens=3, do_sample=False, pad_token_id=0,
    )  # fmt: skip
    assert torch.equal(generated, again)


def test_a_kernel_of_another_layout_is_refused_in_words(model):
    model.set_attn_implementation(register_decode())
    with pytest.raises(BadInput, match="it reads int4, not k16v8"):
        steps(model, ids(), LayoutCache(model, "k16v8", decoder="int4"))


@pytest.mark.parametrize("layout", ["dense", "k16v8", "int4"])
def test_steps_that_stand_on_the_device_are_the_same(model, layout):
    """A step as a graph replays it: it writes where a number on the device says, and reads by
    lengths, whatever lies behind them."""
    from assay.integrations.transformers.replayed import placed_step
    from assay.kv.device_place import DevicePlace

    model.set_attn_implementation("sdpa")
    wanted = steps(model, ids(), LayoutCache(model, layout))
    model.set_attn_implementation(register_decode())
    cache = LayoutCache(model, layout, capacity=32)
    place = DevicePlace.make(2, "cpu")
    with torch.no_grad():
        model(ids()[:, :21], past_key_values=cache, use_cache=True)
        for layer in cache.layers:
            for buffer in layer.encoded.buffers.values():
                buffer.view(torch.uint8)[..., 21:, :] = 0x7F
        place.put(21)
        logits = torch.cat(
            [placed_step(model, cache, ids()[:, i : i + 1], place) for i in range(21, 24)], dim=1
        )
    assert (logits - wanted).abs().max() < 1e-5 * wanted.abs().max()
    assert place.position.item() == 24


@pytest.mark.parametrize(
    ("options", "words"),
    [({"decoder": "k16v9"}, "k16v9"), ({"capacity": 0}, "room for 0 tokens; wanted 1 or more")],
)
def test_what_cannot_be_meant_is_refused_when_the_cache_is_made(model, options, words):
    with pytest.raises(BadInput, match=words):
        LayoutCache(model, "k16v8", **options)


@pytest.mark.parametrize(
    ("layout", "options", "reason"),
    [
        ("k16v8", {"capacity": 32}, "no CUDA graphs without a GPU"),
        ("k16v8", {}, "make it with a capacity"),
        ("k16v8", {"capacity": 32, "decoder": "torch"}, "asked to decode without kernels"),
        ("nvfp4", {"capacity": 32}, "no kernel reads nvfp4 as it is kept"),
        ("k16v8", {"capacity": 32, "residual": 4}, "no kernel reads k16v8 as it is kept"),
    ],
)
def test_replays_say_what_they_want(model, layout, options, reason):
    from assay.integrations.transformers import ReplayedSteps

    model.set_attn_implementation(register_decode())
    cache = LayoutCache(model, layout, **options)
    with torch.no_grad():
        model(ids(), past_key_values=cache, use_cache=True)
    with pytest.raises(BadInput, match=reason):
        ReplayedSteps(model, cache)


def test_a_replayed_step_never_reads_the_cache_by_the_hosts_count(model):
    """Asked to decode without kernels, or with a mask, it would have left out the newest token."""
    from assay.integrations.transformers.replayed import placed_step
    from assay.kv.device_place import DevicePlace

    model.set_attn_implementation(register_decode())
    cache = LayoutCache(model, "k16v8", capacity=32, decoder="torch")
    place = DevicePlace.make(2, "cpu")
    with torch.no_grad():
        model(ids(), past_key_values=cache, use_cache=True)
        place.put(24)
        with pytest.raises(BadInput, match="by a kernel, not by torch"):
            placed_step(model, cache, ids()[:, :1], place)
