"""The recipe for vLLM: printed for commits that have the path, refused in words for all others."""

import json

import pytest

pytest.importorskip("torch")

from assay.errors import BadInput
from assay.integrations import vllm_recipe
from assay.integrations.vllm_recipe import FLASHINFER, VLLM, has_path, make, parse

LLAMA = {
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_size": 4096,
}  # fmt: skip
FORK = {"vllm": "0.18.1.dev3+g2315e62e2.cu128", "flashinfer": "0.6.7+g2b532f7"}


@pytest.fixture
def llama(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    return str(tmp_path)


def test_the_commits_with_the_path_are_accepted(llama):
    made = make(llama, **FORK)
    assert made.known and made.label == "not run here"
    text = made.text()
    assert "git clone" not in text
    assert f"{llama} --layers 32 --key-elements 1024" in made.start[0]
    assert str(32 * 1024 * 3) in text, "keys of 2 bytes and values of 1, of 32 layers"
    assert "not run here" in text


@pytest.mark.parametrize(
    ("vllm", "why"),
    [
        ("0.27.1", "would quantise the keys too"),
        ("0.18.0", "no path for k16v8"),
        ("0.9.0", "no path for k16v8"),
        ("0.8.5", "was not read"),
        ("0.28.0", "was not read"),
        ("1.0", "was not read"),
        ("0.18.1.dev3+gdeadbeef1", "is commit deadbeef1, which was not read"),
        ("0.18.0+cu128", "no path for k16v8"),
    ],
)
def test_other_versions_of_vllm_are_refused(llama, vllm, why):
    with pytest.raises(BadInput, match=why):
        make(llama, vllm=vllm, flashinfer=FORK["flashinfer"])


@pytest.mark.parametrize("flashinfer", ["0.6.17", "0.6.6", "0.2.0", "0.6.8.post1"])
def test_released_flashinfer_is_refused(llama, flashinfer):
    with pytest.raises(BadInput, match="as if they had the keys' dtype"):
        make(llama, vllm=FORK["vllm"], flashinfer=flashinfer)


def test_a_version_that_does_not_name_its_commit_is_unknown(llama):
    """The fork of FlashInfer calls itself 0.6.7 like the release: only the start can decide."""
    assert not has_path(FLASHINFER, "0.6.7")
    made = make(llama, vllm=FORK["vllm"], flashinfer="0.6.7")
    assert not made.known and "git clone" in made.text()


def test_nothing_installed_is_unknown_with_a_reason(llama, monkeypatch):
    def absent(name):
        raise vllm_recipe.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(vllm_recipe.importlib.metadata, "version", absent)
    made = make(llama)
    assert not made.known
    assert all(stated.version is None and stated.reason for stated in made.versions.values())
    assert made.text().count("unknown, not installed") == 2
    assert all(commit in made.text() for commit in (VLLM.commit, FLASHINFER.commit))


@pytest.mark.parametrize(
    "text", ["", "newest", "0", "0.18", "0.18.0 ", "0.18.0+G2315E62E2", "1..2"]
)
def test_malformed_versions(text):
    if text == "0.18":
        assert parse(text, "vllm") == ((0, 18), None)
        return
    with pytest.raises(BadInput, match="is no version of vllm"):
        parse(text, "vllm")


def test_commits_are_compared_by_what_both_have():
    assert has_path(VLLM, "0.18.1.dev3+g2315e62e2aa01")
    assert has_path(VLLM, "0.18.1.dev3+g2315e62.d20260102")
    with pytest.raises(BadInput):
        has_path(VLLM, "0.18.1.dev3+g2315e63")


@pytest.mark.parametrize("layout", ["k8v8", "dense", "k16v8_e5m2", "int4", ""])
def test_other_layouts_are_refused(llama, layout):
    with pytest.raises(BadInput, match="serves k16v8 alone"):
        make(llama, layout=layout, **FORK)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"kv_lora_rank": 512, "qk_rope_head_dim": 64}, "NotImplementedError"),
        ({"model_type": "mistral", "sliding_window": 4096}, "sliding window"),
    ],
)
def test_models_without_the_path_are_refused(tmp_path, more, why):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | more))
    with pytest.raises(BadInput, match=why):
        make(str(tmp_path), **FORK)


def test_a_variant_of_ours_is_refused():
    with pytest.raises(BadInput, match="variant of ours"):
        make("GPT2", **FORK)
