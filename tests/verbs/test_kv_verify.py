"""`assay kv verify` of several variants, with its rows and figures in a folder."""

import json

import pytest

pytest.importorskip("torch")

import typer
from command_line import assay

from assay.errors import BadInput
from assay.reports.cache_charts import ROWS
from assay.reports.row_files import read_rows
from assay.verbs import kv

LATENT = "GPT2_MLA,GPT2_MLA_KV"


def test_several_variants_and_the_folder(tmp_path, capsys):
    with pytest.raises(typer.Exit) as ended:
        kv.verify(LATENT, dtype="float32", length="8,24", as_json=True, out=tmp_path / "caches")
    assert ended.value.exit_code == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["model"], row["tokens"], row["measured"], row["share"]) for row in printed] == [
        ("GPT2_MLA", 8, 8 * 12288, 1), ("GPT2_MLA", 24, 24 * 12288, 1),
        ("GPT2_MLA_KV", 8, 8 * 6144, 0.5), ("GPT2_MLA_KV", 24, 24 * 6144, 0.5),
    ]  # fmt: skip
    written = read_rows(tmp_path / "caches" / ROWS)
    assert all(row["commit"] and row["torch"] for row in written)
    assert [{name: row[name] for name in printed[0]} for row in written[:4]] == printed
    longer = written[4:]
    assert {row["tokens"] for row in longer} == {24 * 2**n for n in range(1, 9)}
    assert {(row["measured"], row["verdict"]) for row in longer} == {(None, "not measured")}
    assert longer[0]["formula"] == 48 * 12288 and longer[-1]["formula"] == 6144 * 6144
    assert {path.name for path in (tmp_path / "caches").iterdir()} == {
        ROWS, "cache_bytes.png", "cache_shares.png",
    }  # fmt: skip


def test_of_the_layouts_each_variant_takes_what_it_can(capsys):
    with pytest.raises(typer.Exit):
        kv.verify(LATENT, layout="dense,splice,mla_latent", length="4", as_json=True)
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["model"], row["layout"]) for row in printed] == [
        ("GPT2_MLA", "mla_latent"), ("GPT2_MLA_KV", "splice"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ("mla_latent,int4", "GPT2_MLA_KV can have none of the layouts mla_latent, int4"),
        ("splice,mla_latent,k3v3", "k3v3"),
    ],
)
def test_a_variant_without_any_is_refused(layout, words):
    with pytest.raises(BadInput, match=words):
        kv.verify(LATENT, layout=layout, length="4")


def test_without_matplotlib_nothing_is_measured(tmp_path):
    done = assay("kv", "verify", LATENT, "--out", "caches", cwd=tmp_path, hide=["matplotlib"])
    assert done.returncode == 3 and "matplotlib is not installed" in done.stderr
    assert not (tmp_path / "caches").exists()
