"""Caches of ours in models of transformers: what is read of them, and their bytes."""

import gc
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from assay import plugins
from assay.errors import BadInput
from assay.integrations.transformers import LayoutCache, register
from assay.kv import contract
from assay.kv.account import cache_bytes, layers_of_config
from assay.kv.encoding import Encoding

SHAPE = {
    "vocab_size": 97, "hidden_size": 128, "intermediate_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
    "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0,
}  # fmt: skip
SPEC = contract.KVSpec(dtype="float32", head_dim=32, key_heads=2, value_heads=2)
LAYOUTS = [
    name
    for name in plugins.listing("layouts")
    if "v" in {stream.name for stream in contract.load(name).streams(SPEC)}
    and not contract.load(name).frozen
]


def model_of(kind="Qwen2", **options):
    """A model with weights large enough that attention is not uniform, and with key biases."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SHAPE | options)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.mul_(3).add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module")
def qwen2():
    return model_of()


def tokens(batch, count, seed=0):
    return torch.randint(1, 97, (batch, count), generator=torch.Generator().manual_seed(seed))


def logits(model, ids, cache, sizes):
    parts = []
    with torch.no_grad():
        for part in ids.split(sizes, dim=1):
            parts.append(model(part, past_key_values=cache, use_cache=True).logits)
    return torch.cat(parts, dim=1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_generate_keeps_exactly_the_bytes_of_the_formula(qwen2, layout):
    cache = LayoutCache(qwen2, layout, residual=5)
    ids = tokens(2, 21)
    made = qwen2.generate(
        ids, past_key_values=cache, max_new_tokens=12, do_sample=False, min_new_tokens=12
    )
    layers = layers_of_config(
        qwen2.config.to_dict() | {"head_dim": 32}, dtype="float32", layout=layout, residual=5
    )
    assert made.shape == (2, 33) and cache.get_seq_length() == 32
    assert cache.nbytes == 2 * cache_bytes(layers, 32)


def test_a_dense_cache_is_transformers_own(qwen2):
    ids = tokens(2, 30)
    own = transformers.DynamicCache(config=qwen2.config)
    expected = logits(qwen2, ids, own, [13, 1, 1, 15])
    cache = LayoutCache(qwen2, "dense")
    assert torch.equal(logits(qwen2, ids, cache, [13, 1, 1, 15]), expected)
    assert cache.nbytes == sum(x.keys.nbytes + x.values.nbytes for x in own.layers)
    searched = [
        qwen2.generate(ids, past_key_values=c, max_new_tokens=6, num_beams=3, do_sample=False)
        for c in (LayoutCache(qwen2, "dense"), transformers.DynamicCache(config=qwen2.config))
    ]
    assert torch.equal(*searched)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_cache_is_what_attention_reads(layout):
    """Zeros in the place of keys, or of values, move the logits; steps read what a pass reads."""
    model, ids = model_of().double(), tokens(2, 32)
    own = contract.load(layout)
    right = logits(model, ids, LayoutCache(model, layout), [32])
    chunks = [9, 1, 1, 21] if own.block == 1 else [own.block] * 2
    stepped = logits(model, ids, LayoutCache(model, layout), chunks)
    assert torch.allclose(stepped, right, atol=1e-4 * float(right.abs().max()))
    for side in "kv":

        def encode(values, codecs=(), side=side):
            return own.encode({**values, side: torch.zeros_like(values[side])}, codecs)

        destroyed = LayoutCache(model, replace(own, encode=encode))
        moved = logits(model, ids, destroyed, [32]) - right
        assert moved.abs().max() > 0.01 * right.abs().max(), side


def test_padded_batches_beams_and_layers_of_their_own(qwen2):
    ids, mask = tokens(2, 20), torch.ones(2, 20, dtype=torch.long)
    mask[0, :7] = 0
    ids[0, :7] = 0
    layouts = ["dense", "k16v8", "int4"]
    cache = LayoutCache(qwen2, layouts)
    batch = qwen2.generate(
        ids, attention_mask=mask, past_key_values=cache, max_new_tokens=5, do_sample=False
    )
    alone = qwen2.generate(
        ids[:1, 7:], past_key_values=LayoutCache(qwen2, layouts), max_new_tokens=5, do_sample=False
    )
    assert torch.equal(batch[0, 20:], alone[0, 13:])
    kept = [layer.encoded.nbytes for layer in cache.layers]
    assert kept == [2 * 24 * contract.load(name).bytes_per_token(SPEC) for name in layouts]
    beams = LayoutCache(qwen2, "k8v8")
    qwen2.generate(ids, past_key_values=beams, max_new_tokens=4, num_beams=2, do_sample=False)
    assert beams.nbytes == 4 * 23 * 3 * contract.load("k8v8").bytes_per_token(SPEC)


def test_layers_with_a_window_are_kept_as_transformers_keeps_them():
    model = model_of("Mistral", sliding_window=8)
    ids = tokens(2, 30)
    own = transformers.DynamicCache(config=model.config)
    cache = LayoutCache(model, "k8v8")
    expected = logits(model, ids, own, [13, 1, 16])
    assert torch.equal(logits(model, ids, cache, [13, 1, 16]), expected)
    assert not cache.reads


WINDOWED = {"sliding_window": 32, "layer_types": ["sliding_attention", "full_attention"] * 2}


@pytest.mark.parametrize(
    ("kind", "options"),
    [("Mistral", {"sliding_window": 32}), ("Gemma3Text", WINDOWED), ("GptOss", WINDOWED)],
)
@pytest.mark.parametrize("layout", ["dense", "int4"])
def test_bytes_of_windows_are_those_of_sizes(kind, options, layout):
    """A formula without windows said 18,432 of a cache of 126,976 bytes, and 296,960 of one of
    294,400."""
    heads = {"num_hidden_layers": 4, "head_dim": 32}
    config = getattr(transformers, f"{kind}Config")(**SHAPE | heads | options)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    layers = layers_of_config(config.to_dict(), dtype="float32", layout=layout)
    cache, length = LayoutCache(model, layout), 0
    for part in (20, 12, 1, 40):
        logits(model, tokens(2, part), cache, [part])
        length += part
        assert cache.nbytes == 2 * cache_bytes(layers, length)


def test_tokens_are_taken_off_and_the_cache_is_emptied(qwen2):
    ids, cache = tokens(1, 24), LayoutCache(qwen2, "k16v8")
    logits(qwen2, ids[:, :20], cache, [20])
    cache.crop(-5)
    assert cache.get_seq_length() == 15
    again = logits(qwen2, ids[:, 15:], cache, [9])
    whole = logits(qwen2, ids, LayoutCache(qwen2, "k16v8"), [15, 9])[:, 15:]
    assert torch.allclose(again, whole, atol=1e-4)
    cache.reset()
    assert cache.get_seq_length() == 0 and cache.nbytes == 0


def test_memory_beyond_what_is_kept_is_counted(qwen2):
    """46,784 bytes were reported of a cache that had 65,280; keys and values of the prompt, whole,
    stayed in memory beside their codes and were in neither number."""
    cache = LayoutCache(qwen2, "int8")
    logits(qwen2, tokens(1, 43), cache, [40, 1, 1, 1])
    assert cache.allocated_bytes * 43 == cache.nbytes * 60  # grown once, by half
    full = LayoutCache(qwen2, "int8", capacity=43)
    logits(qwen2, tokens(1, 43), full, [40, 1, 1, 1])
    assert full.allocated_bytes == full.nbytes == cache.nbytes
    windowed = LayoutCache(model_of("Mistral", sliding_window=8), "int8")
    assert windowed.allocated_bytes == windowed.nbytes == 0
    logits(model_of("Mistral", sliding_window=8), tokens(1, 30), windowed, [30])
    assert windowed.allocated_bytes > windowed.nbytes  # a view of the whole pass


def test_a_bias_that_captures_the_scale_is_repaired():
    """A planted bias as in Qwen2.5-7B: keys of 8 bits lose the model, and values alone, or keys
    without their bias, do not."""
    model, ids = model_of(), tokens(2, 64)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.k_proj.bias[::16] = 400.0
    dense = logits(model, ids, LayoutCache(model, "dense"), [64])
    error = {
        name: float((logits(model, ids, LayoutCache(model, name), [64]) - dense).norm())
        for name in ("k8v16", "k8v8", "k16v8", "k8prebias_v8")
    }
    broken, repaired = (error["k8v16"], error["k8v8"]), (error["k16v8"], error["k8prebias_v8"])
    assert min(broken) > 0.5 * float(dense.norm())
    assert max(repaired) < 0.5 * min(broken), error


def test_pre_bias_keys_refuse_other_positions(qwen2):
    ids, mask = tokens(2, 20), torch.ones(2, 20, dtype=torch.long)
    mask[0, :7] = 0
    cache = LayoutCache(qwen2, "k8prebias_v8")
    with pytest.raises(BadInput, match="pass sequences without padding"):
        qwen2.generate(ids, attention_mask=mask, past_key_values=cache, max_new_tokens=2)
    hooks = qwen2.model.rotary_emb._forward_pre_hooks
    assert hooks
    del cache
    gc.collect()
    assert not hooks


@pytest.mark.parametrize(
    ("kind", "layout", "words"),
    [
        ("Llama", "k8prebias_v8", "has no bias in its key projection"),
        ("Qwen3", "k8prebias_v8", "norms its keys"),
        ("Qwen2", ["dense"] * 2, "2 layouts for 3 layers"),
        ("Qwen2", "k4v2", "k4v2"),
        ("Qwen2", "mla_latent", "keeps no keys and values, but latents"),
        ("Qwen2", None, "wanted a name such as k16v8"),
    ],
)
def test_what_cannot_be_kept_is_refused(kind, layout, words):
    with pytest.raises(BadInput, match=words):
        LayoutCache(model_of(kind), layout)


def test_an_encoder_with_a_decoder_is_refused():
    """The cache was built without a word; what the decoder reads of the encoder is not in it."""
    small = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=32, **small))
    with pytest.raises(BadInput, match="t5 is an encoder with a decoder"):
        LayoutCache(model)


@pytest.mark.parametrize("name", ["eager", "sdpa", "flash2_torch"])
def test_attention_functions_are_found_by_name(name):
    (registered,) = register(name)
    model, ids = model_of(), tokens(2, 17)
    expected = logits(model, ids, LayoutCache(model, "dense"), [9, 1, 7])
    model.set_attn_implementation(registered)
    given = logits(model, ids, LayoutCache(model, "dense"), [9, 1, 7])
    assert torch.allclose(given, expected, atol=1e-3)
    mask = torch.ones(2, 17, dtype=torch.long)
    mask[0, :5] = 0
    if name == "eager":
        with torch.no_grad():
            model(ids, attention_mask=mask)
    else:
        with pytest.raises(BadInput, match="takes no mask"):
            model(ids, attention_mask=mask)


def test_a_cache_of_another_model_is_refused(qwen2):
    deeper = model_of(num_hidden_layers=4)
    with pytest.raises(BadInput, match="made for a model of 3 layers, and layer 3 writes"):
        logits(deeper, tokens(1, 4), LayoutCache(qwen2), [4])
    with pytest.raises(BadInput, match="given is a str"):
        LayoutCache("folder")
    cache = LayoutCache(qwen2)
    logits(qwen2, tokens(1, 4), cache, [4])
    with pytest.raises(BadInput, match="begun with sequences 1, given 2: make a cache"):
        logits(qwen2, tokens(2, 4), cache, [4])


def test_an_encoding_of_ones_own_may_be_given(qwen2):
    kept = Encoding(layout=contract.load("int8"), residual=3)
    cache = LayoutCache(qwen2, kept)
    logits(qwen2, tokens(1, 10), cache, [10])
    assert set(cache.reads) == {"k", "k_scale", "v", "v_scale", "whole"}
