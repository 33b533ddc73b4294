"""Tokenizers: every text comes back as it was, after saving and loading too."""

import json
import sys

import pytest

from assay import plugins
from assay.errors import BadInput, CannotRunHere

LISTED = plugins.listing("tokenizers")
TEXTS = [f"def function_{n}(argument):\n    return argument + {n}\n" for n in range(40)]
AWKWARD = [
    "",
    " ",
    "a",
    "\0",
    "a\r\nb\r\n",
    "\n\n\t  x",
    "🦔 é ﬀ 語",
    "<|endoftext|>",
    "\ufeffx",
    "e\u0301",
]


def module(name):
    plugin = LISTED[name]
    if plugin.missing:
        pytest.skip(f"{', '.join(plugin.missing)} is not installed")
    return plugins.load(plugin)


def gpt2_files(folder):
    """A vocabulary in the form of GPT-2's: bytes, a few merges, and the end."""
    state = module("bpe").make(iter(TEXTS), 280).state()["model"]["model"]
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in state["merges"]]
    vocabulary = {**state["vocab"], "<|endoftext|>": len(state["vocab"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    return folder


@pytest.fixture
def make(tmp_path, monkeypatch):
    def made(name):
        if name == "gpt2":
            monkeypatch.setenv("ASSAY_GPT2_TOKENIZER", str(gpt2_files(tmp_path)))
        return module(name).make(iter(TEXTS), 280 if name == "bpe" else 0)

    return made


@pytest.mark.parametrize("text", AWKWARD, ids=ascii)
@pytest.mark.parametrize("name", LISTED)
def test_awkward_texts_come_back_exactly(name, text, make):
    tokenizer = make(name)
    tokens = tokenizer.encode(text)
    assert tokenizer.decode(tokens) == text and isinstance(tokens, list)
    assert all(0 <= token < tokenizer.size and token != tokenizer.end for token in tokens)
    assert tokenizer.decode([*tokens, tokenizer.end]) == text


@pytest.mark.parametrize("name", LISTED)
def test_a_state_goes_through_json_and_makes_the_same_tokenizer(name, make):
    tokenizer = make(name)
    again = module(name).load(json.loads(json.dumps(tokenizer.state())))
    text = "".join(TEXTS) + "".join(AWKWARD)
    assert (again.size, again.end) == (tokenizer.size, tokenizer.end)
    assert again.encode(text) == tokenizer.encode(text) and again.state() == tokenizer.state()


@pytest.mark.parametrize("name", LISTED)
def test_the_same_texts_make_the_same_tokenizer(name, make):
    assert make(name).state() == make(name).state()


@pytest.mark.parametrize("name", LISTED)
def test_tokens_that_are_no_text_are_shown_as_such(name, make):
    tokenizer = make(name)
    [first, *_] = tokenizer.encode("é")
    assert "\ufffd" in tokenizer.decode([first]) or tokenizer.decode([first]) == "é"


def test_bytes_are_257_tokens_and_write_even_a_lone_surrogate():
    tokenizer = module("byte").make(iter(()), 0)
    assert (tokenizer.size, tokenizer.end) == (257, 256)
    assert tokenizer.encode("aé") == [97, 195, 169]
    assert tokenizer.decode(tokenizer.encode("\ud800x")) == "\ud800x"
    assert module("byte").make(iter(()), 257).size == 257
    with pytest.raises(BadInput, match="a vocabulary of 300 was asked of the tokenizer byte"):
        module("byte").make(iter(()), 300)


def test_bpe_has_the_size_that_was_asked_for_and_learns():
    small, large = (module("bpe").make(iter(TEXTS), size) for size in (257, 290))
    assert (small.size, small.end, large.size, large.end) == (257, 256, 290, 289)
    text = TEXTS[0]
    assert len(small.encode(text)) == len(text) > 2 * len(large.encode(text))


@pytest.mark.parametrize("size, words", [(256, "too small for bpe"), (60_000, "give at most")])
def test_a_vocabulary_that_bpe_cannot_have_is_refused(size, words):
    with pytest.raises(BadInput, match=words):
        module("bpe").make(iter(TEXTS), size)


def test_gpt2_takes_a_folder_without_its_files_for_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_GPT2_TOKENIZER", str(tmp_path))
    with pytest.raises(BadInput, match=r"has no vocab\.json and no merges\.txt; name a folder"):
        module("gpt2").make(iter(()), 0)
    gpt2_files(tmp_path)
    with pytest.raises(BadInput, match=r"a vocabulary of 50257 was asked .* which has 280"):
        module("gpt2").make(iter(()), 50257)
    (tmp_path / "merges.txt").write_text("#version: 0.2\nno such\n")
    with pytest.raises(BadInput, match=r"are no vocabulary and merges .* get both again"):
        module("gpt2").make(iter(()), 0)


def test_gpt2_without_files_and_hub_says_what_to_do(monkeypatch):
    monkeypatch.delenv("ASSAY_GPT2_TOKENIZER", raising=False)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(CannotRunHere, match="set ASSAY_GPT2_TOKENIZER to a folder with vocab"):
        module("gpt2").make(iter(()), 0)


def test_gpt2_where_no_hub_answers_says_what_to_do(monkeypatch):
    hub = pytest.importorskip("huggingface_hub")

    def unreachable(*args, **options):
        raise ConnectionError("no route to host")

    monkeypatch.delenv("ASSAY_GPT2_TOKENIZER", raising=False)
    monkeypatch.setattr(hub, "hf_hub_download", unreachable)
    monkeypatch.setattr("assay.models.pretrained.hub.answers", lambda: True)
    with pytest.raises(CannotRunHere, match=r"no route to host.*set ASSAY_GPT2_TOKENIZER"):
        module("gpt2").make(iter(()), 0)


@pytest.mark.parametrize(
    "state",
    [{}, {"end": "x", "size": 3}, {"end": -1, "size": 3}, {"end": 2, "size": 3, "model": 7}],
)
def test_a_state_that_no_tokenizer_wrote_is_refused(state):
    """A description of data may be anyone's."""
    pytest.importorskip("tokenizers")
    with pytest.raises(BadInput, match=r"tokenizer (has|cannot be read).*prepare the data again"):
        plugins.load(plugins.find("tokenizers", "bpe")).load(state)
