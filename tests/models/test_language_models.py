"""The door to language models: what it opens, and what it says to everything else."""

import pytest

from assay.errors import BadInput, CannotRunHere

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from assay.models.pretrained import catalog, language_model, random_weights

KINDS = random_weights.names()
TEXT = "To be, or not to be, that is the question."


@pytest.fixture(scope="module", params=KINDS)
def opened(request):
    return catalog.open_model(request.param)


def test_a_random_model_reads_bytes_and_runs(opened):
    ids = opened.token_ids(TEXT)
    assert bytes(ids).decode() == TEXT
    logits = opened.model(torch.tensor([ids])).logits
    assert logits.shape == (1, len(ids), opened.model.config.vocab_size)
    assert torch.isfinite(logits).all()
    assert not opened.model.training


def test_the_same_name_gives_the_same_weights_and_no_other(opened):
    name = opened.identity.name
    state = torch.random.get_rng_state()
    again = catalog.open_model(name)
    other = catalog.open_model(f"{name}:1")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert again.identity == opened.identity
    assert other.identity.digest != opened.identity.digest
    assert other.identity.parameters == opened.identity.parameters


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_shorter_dtype_rounds_the_weights_but_not_the_rotary_frequencies(opened, dtype):
    short = catalog.open_model(opened.identity.name, dtype=dtype, attention="eager")
    assert short.model.config._attn_implementation == "eager"
    for name, parameter in opened.model.named_parameters():
        rounded = parameter.to(getattr(torch, dtype))
        assert torch.equal(short.model.get_parameter(name), rounded)
    exact = dict(opened.model.named_buffers())
    for name, buffer in short.model.named_buffers():
        assert torch.equal(buffer, exact[name])


def test_kinds_differ_in_what_attention_sees():
    llama, qwen3, gpt2 = (catalog.open_model(name).model for name in KINDS)
    assert llama.config.num_key_value_heads < llama.config.num_attention_heads
    assert qwen3.config.head_dim != qwen3.config.hidden_size // qwen3.config.num_attention_heads
    assert hasattr(qwen3.model.layers[0].self_attn, "q_norm")
    assert not list(gpt2.named_buffers())  # no rotary frequencies


def test_a_folder_is_read_as_it_was_saved_and_has_no_made_up_tokenizer(opened, tmp_path):
    """transformers answers a folder without a tokenizer with an empty GPT-2 or Qwen tokenizer."""
    opened.model.save_pretrained(tmp_path)
    loaded = catalog.open_model(str(tmp_path))
    assert loaded.tokenizer is None
    assert loaded.identity.parameters == opened.identity.parameters
    assert loaded.identity.digest.startswith("sha256:")
    ids = torch.tensor([opened.token_ids(TEXT)])
    assert torch.equal(loaded.model(ids).logits, opened.model(ids).logits)


def test_the_digest_of_a_folder_is_that_of_its_weights(tmp_path):
    digests = set()
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        catalog.open_model(f"random:llama:{seed}").model.save_pretrained(folder)
        digests.add(catalog.open_model(str(folder)).identity.digest)
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("smollm", {}, "did you mean smollm2"),
        ("random:bert", {}, "random:qwen3"),
        ("random:llama:x", {}, "random:llama:7"),
        ("random:llama", {"dtype": "int8"}, "bfloat16"),
        ("random:llama", {"attention": "fast"}, "'fast'"),
        ("random:llama", {"device": "moon"}, "'moon'"),
    ],
)
def test_what_is_unknown_is_refused_with_what_is_known(name, settings, says):
    with pytest.raises(BadInput, match=says):
        catalog.open_model(name, **settings)


def test_a_folder_without_a_model_or_with_pickled_weights_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"config\.json"):
        catalog.open_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(BadInput, match="pickled weights are not read"):
        catalog.open_model(str(tmp_path))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_device_that_is_not_here_is_not_bad_input():
    with pytest.raises(CannotRunHere, match="cuda"):
        catalog.open_model("random:llama", device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_gpu_computes_what_the_cpu_computes(opened):
    loaded = catalog.open_model(opened.identity.name, device="cuda")
    assert loaded.identity == opened.identity
    assert {p.device.type for p in loaded.model.parameters()} == {"cuda"}
    ids = torch.tensor([opened.token_ids(TEXT)])
    with torch.no_grad():
        on_cpu, on_gpu = opened.model(ids).logits, loaded.model(ids.cuda()).logits.cpu()
    assert (on_cpu - on_gpu).abs().max() <= 2.0**-14 * on_cpu.abs().max()


def test_a_missing_package_is_named_with_its_command():
    with pytest.raises(CannotRunHere, match=r"no_such_package.*pip install 'assay\[hf\]'"):
        language_model.require_packages(("torch", "no_such_package"), purpose="this test")


def test_a_model_with_too_few_ids_for_bytes_says_so(opened):
    class Config:
        vocab_size = 100

    class Model:
        config = Config()

    with pytest.raises(BadInput, match="100 ids"):
        language_model.LanguageModel(Model(), None, opened.identity).token_ids(TEXT)
