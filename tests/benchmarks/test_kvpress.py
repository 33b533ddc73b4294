"""Eviction by kvpress: bytes matched, refusals, and with ASSAY_KVPRESS_PYTHON real presses."""

import json
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from assay.errors import BadInput, CannotRunHere
from benchmarks import kvpress_adapter as kvpress
from benchmarks import kvpress_worker

LLAMA = {
    "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
    "hidden_size": 576, "vocab_size": 49152,
}  # fmt: skip
WINDOWS = [list(range(200))]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    return tmp_path


@pytest.mark.parametrize(
    ("layout", "share"), [("k16v8", 194 / 256), ("k8v8", 132 / 256), ("int4", 72 / 256)]
)
@pytest.mark.parametrize("context", [63, 384, 1000])
def test_bytes_match_a_layout_and_never_exceed_it(folder, layout, share, context):
    matched = kvpress.matched_ratio(str(folder), layout, context=context, dtype="bfloat16")
    assert matched.dense_bytes == context * 30 * 3 * 256
    assert matched.layout_bytes == matched.dense_bytes * share
    token = 30 * 3 * 256
    assert 0 <= matched.layout_bytes - matched.kept_bytes < token
    assert matched.kept_bytes == matched.kept_tokens * token


def test_the_ratio_gives_the_count_of_tokens_that_kvpress_computes():
    """It takes int(context * (1 - ratio)), and with the ratio 1 - 59/1000 that is 58 of 1,000."""
    assert int(1000 * (1 - (1 - 59 / 1000))) == 58
    for context in (63, 384, 1000):
        for kept in range(1, context + 1):
            ratio = kvpress.ratio_of(kept, context)
            assert 0 <= ratio < 1 and int(context * (1 - ratio)) == kept


def test_a_context_too_short_for_the_bytes_is_refused(folder):
    with pytest.raises(BadInput, match="hold no token"):
        kvpress.matched_ratio(str(folder), "int4", context=3, dtype="bfloat16")


def test_a_window_or_state_matches_no_ratio(folder):
    (folder / "config.json").write_text(
        json.dumps(LLAMA | {"model_type": "mistral", "sliding_window": 128})
    )
    with pytest.raises(BadInput, match="a ratio matches none"):
        kvpress.matched_ratio(str(folder), "int4", context=384, dtype="bfloat16")


def test_both_halves_have_the_same_presses():
    assert set(kvpress.CONTEXTS) == set(kvpress_worker.PRESSES)


@pytest.mark.parametrize(
    ("windows", "press", "ratio", "options", "why"),
    [
        (WINDOWS, "h2o", 0.5, {}, "there is no press 'h2o'"),
        (WINDOWS, "knorm", 1.0, {}, "wanted a share"),
        (WINDOWS, "knorm", -0.1, {}, "wanted a share"),
        (WINDOWS, "knorm", float("nan"), {}, "wanted a share"),
        (WINDOWS, "snapkv", 0.5, {"context": 64}, "at least 65 tokens"),
        (WINDOWS, "knorm", 0.5, {"context": 199}, "wanted 1 to 198"),
        (WINDOWS, "knorm", 0.5, {"context": 0}, "wanted 1 to 198"),
        (WINDOWS, "knorm", 0.5, {"dtype": "int8"}, "dtype is 'int8'"),
        ([], "knorm", 0.5, {}, "one or more, all of one length"),
        ([[1, 2, 3, 4], [1, 2]], "knorm", 0.5, {}, "all of one length"),
        ([[0, 1, 2, 49152]], "knorm", 0.5, {}, "from 0 to 49151"),
    ],
)
def test_bad_requests_are_refused_before_anything_starts(
    folder, windows, press, ratio, options, why
):
    with pytest.raises(BadInput, match=why):
        kvpress.evict(folder, windows, press, ratio, folder / "absent", **options)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"no config\.json with a vocab_size"):
        kvpress.evict(tmp_path, WINDOWS, "knorm", 0.5, tmp_path)


def test_an_absent_environment_says_how_to_make_it(folder):
    with pytest.raises(CannotRunHere, match=r"pip install kvpress==0\.5\.5 torch==2\.13\.0"):
        kvpress.evict(folder, WINDOWS, "knorm", 0.5, folder / "absent")


def test_an_environment_without_kvpress_is_told_by_its_last_line(folder):
    """This very Python has no kvpress: the worker ends, and its reason arrives."""
    with pytest.raises(CannotRunHere, match="kvpress"):
        kvpress.evict(folder, WINDOWS, "knorm", 0.5, Path(sys.executable))


def test_a_limit_on_time_ends_it(folder, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nsleep 60\n")
    python.chmod(0o755)
    with pytest.raises(CannotRunHere, match=r"longer than 0\.2 s"):
        kvpress.evict_pairs(folder, WINDOWS, [("knorm", 0.5)], python, timeout_s=0.2)


def test_an_environment_is_never_made_over_another(tmp_path):
    with pytest.raises(BadInput, match="is there already"):
        kvpress.make_environment(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(
    "ASSAY_KVPRESS_PYTHON" not in os.environ,
    reason="ASSAY_KVPRESS_PYTHON names no Python with kvpress 0.5.5",
)
def test_real_presses_keep_the_bytes_that_were_asked(tmp_path):
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=32,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    windows = torch.randint(0, 128, (2, 160)).tolist()
    environment = Path(os.environ["ASSAY_KVPRESS_PYTHON"])
    matched = kvpress.matched_ratio(str(tmp_path), "int4", context=100, dtype="bfloat16")
    pairs = [(press, matched.ratio) for press in kvpress.CONTEXTS] + [("knorm", 0.0)]
    rows = kvpress.evict_pairs(
        tmp_path, windows, pairs, environment, context=100, dtype="bfloat16", timeout_s=300
    )
    assert len(rows) == 2 * 6 and all(row.tokens == 59 for row in rows)
    assert all(row.dense_bytes == matched.dense_bytes for row in rows)
    for row in rows:
        if row.ratio:
            assert row.kept_bytes == matched.kept_bytes and row.nll != row.dense_nll
        else:
            assert row.kept_bytes == row.dense_bytes and row.nll == row.dense_nll
            assert row.top1 == 1
