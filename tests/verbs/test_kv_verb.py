"""`assay kv`: bytes by formula, sequences that fit, and real caches against both."""

import json

import pytest

pytest.importorskip("torch")

import typer
from command_line import assay

from assay.errors import BadInput
from assay.kv.account import cache_bytes, layers_of_config, sequences_that_fit
from assay.verbs import kv

LLAMA = {
    "model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "hidden_size": 4096,
}  # fmt: skip
DEEPSEEK = {
    "model_type": "deepseek_v2", "num_hidden_layers": 27, "num_attention_heads": 16,
    "hidden_size": 2048, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
}  # fmt: skip


@pytest.fixture
def rows(capsys):
    """Run a verb in this process; return its JSON lines."""

    def run(function, *words, **options):
        try:
            function(*words, **options, as_json=True)
        except typer.Exit as ended:
            assert not ended.exit_code
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_sizes_of_known_models(rows):
    """36, 6 and 3 MiB of 1,024 tokens: what the three published designs keep."""
    for model, wanted in (("GPT2", 36), ("GPT2_MLA", 6), ("GPT2_MLA_KV", 3)):
        row, *_ = rows(kv.sizes, model, length="1024")
        assert row["1024_tokens"] == wanted * 2**20
    assert sum(x.per_token for x in layers_of_config(LLAMA, dtype="bfloat16")) == 131072
    assert sum(x.per_token for x in layers_of_config(DEEPSEEK, dtype="bfloat16")) == 31104


def test_sizes_by_layout_of_a_config_file(rows, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    by_layout = {row["layout"]: row for row in rows(kv.sizes, str(tmp_path))}
    assert by_layout["dense"]["share"] == 1
    per_head = {"k16v8": 256 + 130, "int4": 2 * 72, "mxfp4": 2 * 68, "nvfp4": 2 * 76}
    for layout, size in per_head.items():
        assert by_layout[layout]["bytes_per_token"] == 32 * 8 * size
    assert "mla_latent" not in by_layout and "splice" not in by_layout


def test_layouts_that_do_not_fit_are_named(tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"head_dim": 80}))
    kv.sizes(str(tmp_path), as_json=True)
    shown = capsys.readouterr()
    assert "int4" not in shown.out and "k16v8" in shown.out
    assert "left out: int4, int8" in shown.err and "no whole groups of 32" in shown.err


def test_layers_with_a_window_keep_no_more_than_it():
    config = LLAMA | {
        "sliding_window": 1024,
        "layer_types": ["sliding_attention", "full_attention"] * 16,
    }
    layers = layers_of_config(config, dtype="bfloat16")
    assert cache_bytes(layers, 1023) == 1023 * 131072
    assert cache_bytes(layers, 1024) == (1023 + 1024) * 131072 // 2  # the next sees itself too
    assert cache_bytes(layers, 4096) == (1023 + 4096) * 131072 // 2
    with pytest.raises(BadInput, match="sliding_window is 1; wanted a whole number from 2 on"):
        layers_of_config(config | {"sliding_window": 1}, dtype="bfloat16")
    unused = layers_of_config(config | {"use_sliding_window": False, "layer_types": None},
                              dtype="bfloat16")  # fmt: skip
    assert cache_bytes(unused, 4096) == 4096 * 131072


def test_layers_with_a_window_are_promised_in_no_other_layout(tmp_path, capsys, rows):
    """sizes and fit promised 144 MiB for a Mistral in int4 where 512 remain: such layers stay
    dense. Shares are of whole caches, as real ones are counted."""
    mistral = LLAMA | {"model_type": "mistral", "sliding_window": 4096}
    (tmp_path / "config.json").write_text(json.dumps(mistral))
    for row in rows(kv.sizes, str(tmp_path), layout="dense,int4", length="8192"):
        assert row["8192_tokens"] == 4095 * 131072 and row["share"] == 1
    for row in rows(kv.fit, str(tmp_path), memory="2GiB", weights="1GiB", layout="dense,int4",
                    length="8192"):  # fmt: skip
        assert row["sequences"] == 2
    kv.sizes(str(tmp_path), dtype="bfloat16", layout="int4", length="8192")
    words = " ".join(capsys.readouterr().out.split())
    assert "32 of 32 layers have a window: they keep one token less than that, whole" in words
    mixed = LLAMA | {"sliding_window": 64,
                     "layer_types": ["sliding_attention"] * 5 + ["full_attention"]}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(mixed | {"num_hidden_layers": 6}))
    (row,) = rows(kv.sizes, str(tmp_path), layout="int4", length="256")
    assert row["share"] == (5 * 63 + 256 * 0.28125) / (5 * 63 + 256)


def test_sequences_that_fit(rows):
    """668 of 1,024 tokens in 24 GiB beside 512 MiB of weights, as published."""
    (row,) = rows(kv.fit, "GPT2", memory="24GiB", weights="512MiB", length="1024", layout="dense")
    assert row["sequences"] == 668 and row["left_over"] == 16 * 2**20
    layers = layers_of_config(LLAMA, dtype="bfloat16")
    assert sequences_that_fit(layers, room=-1, tokens=10) == 0


@pytest.mark.parametrize(("model", "layout"), [("GPT2", "dense,k16v8"), ("GPT2_MLA_KV", None)])
def test_real_caches_are_as_large_as_the_formula_says(rows, model, layout):
    for row in rows(kv.verify, model, layout=layout, length="8,24"):
        assert row["measured"] == row["formula"] and row["verdict"] == "ok"


def test_a_cache_that_keeps_more_than_it_says_fails(monkeypatch):
    from assay.models import cache_check
    from assay.models.cached_layers import open_model

    monkeypatch.setattr(cache_check, "cache_bytes", lambda layers, tokens: 1000 * tokens)
    for row in cache_check.check_caches(
        open_model("GPT2"), ["dense"], dtype="float32", lengths=[4]
    ):
        assert "B from the formula" in row["verdict"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_hidden_layers": "12"}, "num_hidden_layers is '12'; wanted a whole number"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0; wanted a whole number"),
        ({"layer_types": ["mamba"] * 32}, "layer_types has kinds mamba"),
        ({"layer_types": ["full_attention"]}, "layer_types has 1 entries"),
        ({"layer_types": 5}, "layer_types is 5; wanted a list"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0; wanted a whole number"),
        ({"num_key_value_heads": 5}, "the number of heads is 32, which 5 does not divide"),
        ({"hidden_size": 4097, "head_dim": None}, "the width is 4097, which 32 does not divide"),
        ({"num_hidden_layers": 10**15}, "below 2"),
        ({"num_hidden_layers": 10**6}, "1000000 layers; wanted at most 10000"),
        ({"model_type": "gemma2", "sliding_window": 4096}, "no layer_types says which layers"),
        ({"multi_query": True}, "multi_query says what some layers keep"),
        ({"num_kv_heads": 8}, "num_kv_heads says what some layers keep"),
        ({"attn_layer_period": 8}, "attn_layer_period says what some layers keep"),
        ({"model_type": "mamba"}, "mamba keeps states"),
        ({"text_config": 3}, "text_config is 3; wanted an object"),
        (DEEPSEEK | {"qk_rope_head_dim": None}, "qk_rope_head_dim is None"),
        (DEEPSEEK | {"kv_lora_rank": None}, "kv_lora_rank is None"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(change, words):
    with pytest.raises(BadInput, match=words):
        layers_of_config(LLAMA | change, dtype="bfloat16")


def test_a_config_without_sizes_is_refused():
    with pytest.raises(BadInput, match="none of num_hidden_layers, n_layer"):
        layers_of_config({"model_type": "llama"}, dtype="bfloat16")


@pytest.mark.parametrize("family", ["bert", "foo_next", "nemotron-nas", "qwen3_next", "t5"])
def test_a_family_that_is_not_known_is_refused_by_its_name(family, tmp_path, capsys):
    """BERT, which has no cache, and an invented name were counted as Llama, exit 0."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"model_type": family}))
    with pytest.raises(BadInput, match=f"config.json: model_type is {family!r}"):
        kv.sizes(str(tmp_path))
    with pytest.raises(BadInput, match=f"model_type is {family!r}"):
        layers_of_config({"model_type": "llava", "text_config": LLAMA | {"model_type": family}},
                         dtype="bfloat16")  # fmt: skip
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    "change",
    [
        {"block_configs": [{"attention": {"no_op": True}}], "num_key_value_heads": None},
        {"attn_type_list": [0, 0, 0, 1] * 8},
        {"full_attention_interval": 4},
        {"linear_attn_config": {"full_attn_layers": [4]}},
        {"attention_chunk_size": 8192},
        {"full_attn_idxs": [2, 5, 8]},
        {"hybrid_layer_pattern": [0, 1] * 16},
        {"index_head_dim": 128},
        {"v_head_dim": 64},
        {"num_kv_layers": 4},
        {"cross_layer_kv_sharing": True},
        {"kv_lora_rank": 512},
        {"is_encoder_decoder": True},
        {"use_bidirectional_attention": True},
        {"full_attn_mod": 2},
    ],
)
def test_a_key_about_layers_that_is_not_read_is_refused_by_its_name(change):
    """Hybrids in the form that they have on the hub were counted up to 16 times too large; the
    next of them may come under a name that is known."""
    with pytest.raises(BadInput, match=f"the config: {next(iter(change))} says what some layers"):
        layers_of_config(LLAMA | change, dtype="bfloat16")
    with pytest.raises(BadInput, match=f"{next(iter(change))} says what some layers"):
        config = {**change, "model_type": "llava", "text_config": LLAMA}
        layers_of_config(config, dtype="bfloat16")


def test_a_file_that_names_no_family_is_counted_by_its_keys():
    for config, wanted in ((LLAMA, 131072), (DEEPSEEK, 31104)):
        layers = layers_of_config(config | {"model_type": None}, dtype="bfloat16")
        assert sum(layer.per_token for layer in layers) == wanted


def test_an_indexer_beside_latents_is_refused():
    """DeepSeek-V3.2 keeps keys of its indexer too, which were left out."""
    with pytest.raises(BadInput, match="index_head_dim, index_topk says what some layers"):
        layers_of_config(DEEPSEEK | {"index_head_dim": 128, "index_topk": 2048}, dtype="bfloat16")


@pytest.mark.parametrize(
    ("function", "model", "options", "words"),
    [
        (kv.sizes, "GPT3", {}, "'GPT3' is no model of this family"),
        (kv.sizes, "missing/config.json", {}, "is no file; wanted a config.json of Hugging Face"),
        (kv.sizes, "GPT2", {"dtype": "int3"}, "--dtype is 'int3'; wanted one of"),
        (kv.sizes, "GPT2", {"length": "a"}, "--length is 'a'; wanted whole numbers"),
        (kv.sizes, "GPT2", {"layout": "k3v3"}, "k3v3"),
        (kv.sizes, "GPT2_MLA", {"layout": "k16v8"}, "cannot stand for mla_latent"),
        (kv.fit, "GPT2", {"memory": "much"}, "--memory is 'much'; wanted a number of bytes"),
    ],
)
def test_what_cannot_be_counted_is_told(function, model, options, words):
    with pytest.raises(BadInput, match=words):
        function(model, **options)


def test_files_that_cannot_be_read_are_told(tmp_path):
    path = tmp_path / "config.json"
    for text, words in (("{", "cannot be read as JSON"), ("[]", "holds a list; wanted an object")):
        path.write_text(text)
        with pytest.raises(BadInput, match=words):
            kv.sizes(str(path))
    path.write_text(json.dumps(LLAMA))
    with pytest.raises(BadInput, match="give --weights"):
        kv.fit(str(path), memory="1GiB")
    with pytest.raises(BadInput, match="has no weights to run"):
        kv.verify(str(path))


def test_the_command_line_prints_a_table(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    done = assay("kv", "sizes", "config.json", "--layout", "dense,k16v8", cwd=tmp_path)
    assert done.returncode == 0 and "131072" in done.stdout and "0.7539" in done.stdout


def test_the_answer_stands_above_the_table(capsys):
    kv.sizes("GPT2", dtype="bfloat16", length="1024", layout="dense,int4")
    answer, empty, title, *_ = capsys.readouterr().out.splitlines()
    assert answer == (
        "GPT2: 36,864 bytes per token in dense, bfloat16; the least are 10,368, in int4"
    )
    assert (empty, title) == ("", "Cache of GPT2, bfloat16")
