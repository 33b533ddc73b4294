"""A Llama out of a GGUF file is the Llama that was written into it."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from assay.errors import BadInput

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")

import made_gguf

from assay.models.pretrained import catalog, gguf_reader, llama


@pytest.fixture(scope="module")
def tokenizer():
    return made_gguf.trained_tokenizer()


@pytest.fixture(scope="module")
def written(tokenizer):
    return made_gguf.small_llama(vocabulary=tokenizer.get_vocab_size())


@pytest.fixture(scope="module")
def path(written, tokenizer, tmp_path_factory):
    file = tmp_path_factory.mktemp("gguf") / "small.gguf"
    return made_gguf.write(file, made_gguf.gguf_tensors(written), tokenizer)


@pytest.fixture
def ids(tokenizer):
    return torch.tensor([tokenizer.encode(made_gguf.TEXT).ids])


def test_unquantised_weights_give_the_very_same_logits(path, written, ids):
    loaded = catalog.open_model(str(path))
    with torch.no_grad():
        assert torch.equal(loaded.model(ids).logits, written(ids).logits)
    assert loaded.identity.parameters == sum(p.numel() for p in written.parameters())
    assert loaded.identity.licence == "apache-2.0"
    assert loaded.identity.title == "Small Llama"
    assert loaded.identity.digest == gguf_reader.read(path).digest
    assert not loaded.model.training


def test_a_head_of_its_own_is_read_and_not_tied(tokenizer, ids, tmp_path):
    model = made_gguf.small_llama(vocabulary=tokenizer.get_vocab_size(), tied=False)
    file = made_gguf.write(tmp_path / "f.gguf", made_gguf.gguf_tensors(model), tokenizer)
    loaded = llama.load(file).model
    assert not loaded.config.tie_word_embeddings
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, model(ids).logits)


def test_scores_are_those_of_the_file_under_llama_cpps_rotation(path):
    """The order of rows, without the converter's formula: q k^T after each side's own rotation.

    llama.cpp turns dimensions (2 i, 2 i + 1) of the rows as the file has them, transformers
    (i, i + half) of the rows as they are loaded.
    """
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    file = gguf_reader.read(path)
    rows = {part: file.tensor(f"blk.0.attn_{part}.weight") for part in "qk"}
    x = np.random.default_rng(0).normal(size=(7, made_gguf.WIDTH))
    positions, half = np.arange(7), made_gguf.HEAD_DIM // 2
    angle = positions[:, None] * made_gguf.ROPE_THETA ** (-np.arange(half) / half)

    def turned_in_pairs(weight, heads):
        pairs = (x @ weight.T).reshape(7, heads, half, 2)
        numbers = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angle)[:, None]
        return numbers.transpose(1, 0, 2)  # one complex number for each pair

    def in_halves(weight, heads):
        loaded = llama.halves_of_heads(weight, heads=heads)
        return torch.tensor((x @ loaded.T).reshape(1, 7, heads, -1).transpose(0, 2, 1, 3))

    pairs_q = turned_in_pairs(rows["q"], made_gguf.HEADS)[:2]  # the two heads of kv head 0
    pairs_k = turned_in_pairs(rows["k"], made_gguf.KV_HEADS)[:1]
    wanted = (pairs_q @ pairs_k.conj().transpose(0, 2, 1)).real
    cosine, sine = (torch.tensor(np.tile(f(angle), 2))[None] for f in (np.cos, np.sin))
    q, k = in_halves(rows["q"], made_gguf.HEADS), in_halves(rows["k"], made_gguf.KV_HEADS)
    q, k = apply_rotary_pos_emb(q, k, cosine, sine)
    np.testing.assert_allclose(q[0, :2] @ k[0, :1].mT, wanted, rtol=1e-10, atol=1e-10)


def test_four_bit_weights_are_expanded_to_within_half_a_step(written, tokenizer, tmp_path):
    """Q4_1 stores 32 numbers as a minimum and 15 steps, both in float16."""
    tensors = made_gguf.gguf_tensors(written)
    file = gguf_reader.read(
        made_gguf.write(tmp_path / "q.gguf", tensors, tokenizer, quantised=True)
    )
    for name, exact in tensors.items():
        loaded = file.tensor(name)
        assert loaded.shape == exact.shape and loaded.dtype == np.float32
        if file.stored[name].tensor_type == made_gguf.QUANTISED:
            blocks = exact.reshape(-1, 32)
            step = np.ptp(blocks, axis=1, keepdims=True) / 15
            error = np.abs(loaded.reshape(-1, 32) - blocks)
            largest = np.abs(blocks).max(axis=1, keepdims=True)
            assert (error <= 0.5 * step + 2 * largest * 2.0**-11 + 15 * step * 2.0**-11).all()
            assert error.max() > 0
        else:
            assert np.array_equal(loaded, exact)
    assert file.storage == "14 x Q4_1, 6 x F32"


def test_the_tokenizer_is_the_one_that_was_written(path, tokenizer):
    loaded = llama.load(path)
    for text in (made_gguf.TEXT, "", "x", "2024", "\u4f60\u597d \U0001f642 \n\n  end"):
        assert loaded.token_ids(text) == tokenizer.encode(text).ids
        assert loaded.tokenizer.decode(loaded.token_ids(text)) == text
    assert loaded.token_ids("<|im_start|>x<|im_end|>") == [1, *loaded.token_ids("x"), 2]
    assert loaded.tokenizer.eos_token_id == loaded.model.config.eos_token_id == 2
    assert len(loaded.token_ids("2024")) == 4  # digit by digit


def test_a_shorter_dtype_and_another_attention(path, written, ids):
    loaded = llama.load(path, dtype="bfloat16", attention="eager").model
    assert loaded.dtype == torch.bfloat16
    assert loaded.config._attn_implementation == "eager"
    assert loaded.model.rotary_emb.inv_freq.dtype == torch.float32
    weight = written.model.layers[1].self_attn.k_proj.weight
    assert torch.equal(loaded.model.layers[1].self_attn.k_proj.weight, weight.bfloat16())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cut": "llama-bpe"}, "llama-bpe"),
        ({"add_bos": True}, "add_bos_token"),
    ],
)
def test_a_tokenizer_of_another_kind_is_refused(written, tokenizer, tmp_path, options, says):
    tensors = made_gguf.gguf_tensors(written)
    file = made_gguf.write(tmp_path / "f.gguf", tensors, tokenizer, **options)
    with pytest.raises(BadInput, match=says):
        llama.load(file)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("llama.attention.head_count", 0, "wanted a number above 0"),
        ("llama.attention.head_count", 7, "no Llama is like that"),
        ("llama.attention.head_count_kv", "two", "wanted a number above 0"),
        ("llama.block_count", 1 << 20, "no Llama is like that"),
        ("llama.feed_forward_length", 97, r"its fields want \[97, 64\]"),
        ("tokenizer.ggml.merges", ["no such"], "merges 'no and such'"),
        ("tokenizer.ggml.merges", ["t"], "merges 't'"),
        ("tokenizer.ggml.eos_token_id", 1 << 20, "1048576 as tokenizer.ggml.eos_token_id"),
        ("tokenizer.ggml.eos_token_id", -1, "-1 as tokenizer.ggml.eos_token_id"),
    ],
)
def test_fields_that_do_not_fit_the_tensors_are_refused(path, monkeypatch, field, value, says):
    file = gguf_reader.read(path)
    changed = replace(file, fields={**file.fields, field: value})
    monkeypatch.setattr(gguf_reader, "read", lambda _: changed)
    with pytest.raises(BadInput, match=says):
        llama.load(path)


def test_another_architecture_and_unknown_or_absent_tensors_are_refused(
    written, tokenizer, tmp_path
):
    tensors = made_gguf.gguf_tensors(written)
    other = made_gguf.write(tmp_path / "a.gguf", tensors, tokenizer, architecture="qwen2")
    with pytest.raises(BadInput, match="qwen2"):
        llama.load(other)
    more = tensors | {"rope_freqs.weight": np.ones(8, np.float32)}
    with pytest.raises(BadInput, match="rope_freqs"):
        llama.load(made_gguf.write(tmp_path / "b.gguf", more, tokenizer))
    fewer = {name: tensors[name] for name in tensors if name != "blk.1.ffn_up.weight"}
    with pytest.raises(BadInput, match="up_proj"):
        llama.load(made_gguf.write(tmp_path / "c.gguf", fewer, tokenizer))


@pytest.mark.parametrize("kept", [0, 3, 100, 0.2, 0.5, 0.99])
def test_a_file_that_is_cut_short_is_refused(path, tmp_path, kept):
    cut = tmp_path / "cut.gguf"
    whole = path.read_bytes()
    cut.write_bytes(whole[: kept if isinstance(kept, int) else int(kept * len(whole))])
    with pytest.raises(BadInput, match="cannot be read as GGUF"):
        llama.load(cut)


def test_a_file_that_is_absent_or_something_else_is_refused(tmp_path):
    with pytest.raises(BadInput, match="there is no file"):
        catalog.open_model(str(tmp_path / "none.gguf"))
    other = tmp_path / "text.gguf"
    shutil.copy(__file__, other)
    with pytest.raises(BadInput, match="cannot be read as GGUF"):
        catalog.open_model(str(other))
