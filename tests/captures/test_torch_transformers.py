"""transformers' models, through the table that they ask for their attention."""

import pytest
import torch
import torch_models as made

import assay
from assay.captures.store import Store

KINDS = ["llama", "qwen3", "gpt2"]
SITES = {"gpt2": "transformer.h.{}.attn"}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", KINDS)
def test_generate_gives_one_record_for_each_layer_and_call(tmp_path, kind, attention):
    model = made.transformer(kind, attention).eval()
    with assay.capturing(model, tmp_path):
        model.generate(made.tokens(), max_new_tokens=3, do_sample=False)
    records = made.records(tmp_path)
    assert [(r.key.step, r.key.layer, r.key.call) for r in records] == [
        (step, layer, 0) for step in range(3) for layer in range(3)
    ]
    site = SITES.get(kind, "model.layers.{}.self_attn")
    assert [r.key.site for r in records[:3]] == [site.format(n) for n in range(3)]
    assert [r.phase for r in records[::3]] == ["prefill", "decode", "decode"]
    lengths = [(r.tensors["q"].shape[2], r.tensors["k"].shape[2]) for r in records[::3]]
    assert lengths == [(7, 7), (1, 8), (1, 9)]
    name = "sdpa" if attention == "sdpa" else "transformers:eager"
    assert {r.implementation for r in records} == {name}
    assert all({"x", "q", "k", "v", "out", "layer_out"} <= set(r.tensors) for r in records)
    assert [Store.open(tmp_path).read(r)["cache.idx"].bits.tolist() for r in records[::3]] == [
        [0, 0],
        [7, 7],
        [8, 8],
    ]
    assert "first 7 positions of k" in records[3].tensors["cache.k"].why


def test_eager_and_sdpa_capture_the_same_call(tmp_path):
    tensors = {}
    for attention in ("eager", "sdpa"):
        model = made.transformer("llama", attention).eval()
        with assay.capturing(model, tmp_path / attention):
            model(made.tokens())
        store = Store.open(tmp_path / attention)
        tensors[attention] = store.read(store.manifest().records[0])
    for name in ("q", "k", "v"):
        assert tensors["eager"][name].digest() == tensors["sdpa"][name].digest()
    out = [made.as_torch(read["out"]) for read in tensors.values()]
    torch.testing.assert_close(*out)
    mask = tensors["eager"]["mask"].numbers()
    assert ((mask == 0) == torch.ones(7, 7).tril().bool().numpy()).all()


def test_heads_that_transformers_repeats_are_told(tmp_path):
    """A mask makes it repeat them, so that torch's function may take another kernel."""
    model = made.transformer("llama").eval()
    padding = torch.ones(2, 7, dtype=torch.long)
    padding[1, :3] = 0
    with assay.capturing(model, tmp_path, layers="0", mode="shapes"):
        model(made.tokens())
        model(made.tokens(), attention_mask=padding)
    plain, masked = made.records(tmp_path)
    assert plain.tensors["k"].shape == masked.tensors["k"].shape == (2, 2, 7, 8)
    assert (plain.scalars["kv_repeated"], masked.scalars["kv_repeated"]) == (False, True)


@pytest.mark.slow  # compiles
@pytest.mark.skipif(
    "AVX" not in torch.backends.cpu.get_cpu_capability(),
    reason="on a CPU torch compiles FlexAttention for AVX2 alone",
)
def test_flex_says_why_its_mask_is_not_there(tmp_path):
    model = made.transformer("llama", "flex_attention").eval()
    with assay.capturing(model, tmp_path, layers="0"), torch.no_grad():
        model(made.tokens(length=16))
    (record,) = made.records(tmp_path)
    assert record.implementation == "transformers:flex_attention"
    assert "BlockMask" in record.tensors["mask"].why
    assert {"q", "k", "v", "out"} <= set(record.tensors)


def test_other_models_are_left_alone(tmp_path):
    ours, other = made.transformer("llama").eval(), made.transformer("llama").eval()
    with assay.capturing(ours, tmp_path, mode="shapes"):
        other(made.tokens())
        ours(made.tokens(length=5))
        other(made.tokens())
    assert [r.tensors["q"].shape[2] for r in made.records(tmp_path)] == [5, 5, 5]


def test_two_models_are_captured_at_once(tmp_path):
    first, second = made.transformer("llama").eval(), made.Plain().eval()
    with (
        assay.capturing(first, tmp_path / "one", mode="shapes"),
        assay.capturing(second, tmp_path / "two", mode="shapes"),
    ):
        for _ in range(2):
            first(made.tokens()), second(made.inputs())
    assert len(made.records(tmp_path / "one")) == len(made.records(tmp_path / "two")) == 6


def test_the_model_and_its_configuration_are_told(tmp_path):
    model = made.transformer("llama")
    with assay.capturing(model, tmp_path):
        pass
    (run,) = Store.open(tmp_path).manifest().runs
    assert run.model["class"] == "LlamaForCausalLM"
    assert run.model["parameters"] == sum(p.numel() for p in model.parameters())
    assert run.config["num_key_value_heads"] == 2
    assert run.config["attn_implementation"] == "sdpa"


def test_a_static_cache_is_told_by_what_it_holds(tmp_path):
    model = made.transformer("llama").eval()
    with assay.capturing(model, tmp_path):
        model.generate(
            made.tokens(),
            max_new_tokens=3,
            do_sample=False,
            cache_implementation="static",
            disable_compile=True,
        )
    records = made.records(tmp_path)
    assert [r.phase for r in records[::3]] == ["prefill", "decode", "decode"]
    assert len({r.tensors["k"].shape for r in records[3:]}) == 1  # its whole capacity
