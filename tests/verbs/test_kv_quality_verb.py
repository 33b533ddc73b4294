"""`assay kv quality` and `compare`: records, tables, refusals, on a model that is everywhere."""

import json
from pathlib import Path

import pytest
import typer

pytest.importorskip("torch")
pytest.importorskip("transformers")

from assay.errors import BadInput
from assay.verbs import _kv_quality as kv

SMALL = {"tokens": 64, "window": 32, "needles": 0, "device": "cpu"}


def records(function, capsys, tmp_path, *words, **options):
    with pytest.raises(typer.Exit) as ended:
        function(*words, **SMALL | options, out=tmp_path, as_json=True)
    lines = capsys.readouterr().out.splitlines()
    return ended.value.exit_code, [json.loads(line) for line in lines if line.startswith("{")]


@pytest.mark.slow
def test_controls_side_by_side(capsys, tmp_path):
    code, rows = records(kv.compare, capsys, tmp_path, "random:qwen3", decode=4)
    assert code == 0
    layouts = ("dense", "k8v16", "k16v8", "k8v8")
    by_metric = {}
    for row in rows:
        if row.get("subject"):
            assert row.get("status", "ok") == "ok", row
            by_metric.setdefault(row["metric"], {})[row["subject"]] = row
    for metric in ("cache_nll", "cache_agreement", "cache_divergence", "cache_proof",
                   "cache_read_bytes", "cache_token_s", "cache_kept_bytes"):  # fmt: skip
        assert set(by_metric[metric]) == set(layouts), metric
    kept = {name: row["value"] for name, row in by_metric["cache_kept_bytes"].items()}
    per_token = {name: row["value"] for name, row in by_metric["cache_bytes_per_token"].items()}
    assert kept == {name: 36 * each for name, each in per_token.items()}
    assert all(len(by_metric["cache_token_s"][name]["samples"]) == 3 for name in layouts)
    page = next(tmp_path.rglob("report.md")).read_text()
    assert "Quality through the cache" in page and "k16v8" in page


def test_a_model_that_is_none_fails_in_words(capsys, tmp_path):
    code, rows = records(kv.quality, capsys, tmp_path, "random:mamba")
    assert code == 1
    assert any("there is no" in (row.get("reason") or "") for row in rows)
    with pytest.raises(BadInput, match="no model is named"):
        kv.quality(out=tmp_path)


@pytest.mark.slow
def test_a_layout_of_ones_own_is_read_by_its_path(capsys, tmp_path):
    """It was refused with the advice to name it by its path, by which it had been named."""
    from assay import plugins

    ours = plugins.find("layouts", "k16v8").path.read_text()
    (tmp_path / "mine.py").write_text(ours)
    path = str(tmp_path / "mine.py")
    code, rows = records(kv.compare, capsys, tmp_path, "random:llama", layout=path, decode=3)
    measured = {(r["metric"], r.get("subject")): r.get("value") for r in rows}
    assert code == 0 and measured["cache_nll", "mine"] and measured["cache_token_s", "mine"]


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (("random:llama",), {"text": Path("no-such-file.txt")}, "no-such-file.txt"),
        (("{folder}",), {}, "holds no config.json"),
        (("my.py",), {}, "my.py is no model; a layout of your own is given with --layout my.py"),
        (("lama",), {}, "there is no model 'lama'"),
        (("random:llama",), {"layout": "dense,,k16v8"}, "empty entry"),
    ],
)
def test_what_cannot_be_read_is_refused_before_a_run(tmp_path, words, options, message):
    words = [word.format(folder=tmp_path) for word in words]
    with pytest.raises(BadInput, match=message):
        kv.quality(*words, **SMALL | options, out=tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_a_window_beyond_the_positions_is_refused_before_a_run(tmp_path):
    config = {"model_type": "llama", "max_position_embeddings": 256}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(BadInput, match=r"--window 300: .* has 256 positions; give 256 or less"):
        kv.quality(str(tmp_path), **SMALL | {"window": 300}, out=tmp_path / "results")
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_nothing_that_was_asked_for_could_be_read(capsys, tmp_path):
    code, _ = records(kv.quality, capsys, tmp_path, "random:llama", layout="int4,k8v8_frozen")
    assert code == 3


@pytest.mark.slow
def test_a_window_counts_in_bytes(capsys, tmp_path):
    """Shares once left the window out, and said 0.14 where it was 0.54."""
    _, rows = records(kv.quality, capsys, tmp_path, "random:qwen3", layout="int4", residual=16)
    sizes = {r["subject"]: r["value"] for r in rows if r["metric"] == "cache_bytes_per_token"}
    assert sizes["int4"] == (16 * sizes["dense"] + 16 * sizes["dense"] * 0.140625) / 32


@pytest.mark.slow
def test_layouts_that_a_model_cannot_have_are_said(capsys, tmp_path):
    code, rows = records(kv.quality, capsys, tmp_path, "random:llama", layout="int4,k16v8")
    reasons = {row["subject"]: row.get("reason") for row in rows if row["metric"] == "cache_proof"}
    assert "no whole groups of 32" in reasons["int4"] and not reasons["k16v8"]
    assert code == 0


def test_what_there_is_is_listed(capsys):
    kv.compare(listed=True, as_json=True)
    names = [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()]
    assert {"k16v8", "int4", "smollm2", "GPT2"} <= set(names)


@pytest.mark.slow
def test_variants_that_keep_latents_stand_beside_others(capsys, tmp_path):
    """They have one cache, their own: bytes and time, and a reason where a loss would stand."""
    code, rows = records(
        kv.compare, capsys, tmp_path, "random:llama,GPT2_MLA", layout="k16v8", decode=3, window=8,
        tokens=16,
    )  # fmt: skip
    kept = {
        (r["cell"], r["subject"]): r["value"] for r in rows if r["metric"] == "cache_kept_bytes"
    }
    assert code == 0 and kept["GPT2_MLA", "mla_latent"] == 11 * 12 * 256 * 4
    assert {("random:llama", "dense"), ("random:llama", "k16v8")} < set(kept)
    reasons = [r["reason"] for r in rows if (r["cell"], r["metric"]) == ("GPT2_MLA", "cache_proof")]
    assert "no dense one" in reasons[0]
    page = next(tmp_path.rglob("report.md")).read_text()
    assert "- kv-compare: stage cache_quality skipped: 1 of 2 cells: its latents are" in page
    assert "mla_latent" in page.partition("Decode through the cache")[2]
