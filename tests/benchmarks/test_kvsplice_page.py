"""The tables of the page on KVSplice are those of its rows, and the rows those of the code."""

import importlib.util

import pytest

pytest.importorskip("torch")

from assay.host import CHECKOUT
from assay.kv.account import cache_bytes
from assay.models import splice_parameters
from assay.models.cached_layers import open_model
from assay.models.gpt2 import checkpoint
from assay.reports.row_files import read_rows


def module_of(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page():
    return module_of(CHECKOUT / "benchmarks/kvsplice_page.py")


def test_the_page_says_what_the_rows_say(page):
    text = page.PAGE.read_text()
    assert all(f"<!-- table: {name} -->\n| " in text for name in page.TABLES)
    assert page.written(text) == text, "run: python benchmarks/kvsplice_page.py"
    changed = text.replace("| 36 MiB |", "| 12 MiB |")
    assert page.written(changed) != changed


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_rows_are_still_what_the_models_keep(page, dtype):
    rows = page.cache_rows(dtype)
    assert {row["dtype"] for row in rows} == {dtype}
    for row in rows:
        model = open_model(row["model"])
        layout = None if row["layout"] == model.layout else row["layout"]
        formula = cache_bytes(model.layers(dtype=dtype, layout=layout), row["tokens"])
        measured = formula if row["tokens"] <= page.TOKENS else None
        assert (row["formula"], row["measured"]) == (formula, measured)


@pytest.mark.parametrize("example", ["learning", "stuck"])
def test_the_examples_come_out_again(page, tmp_path, example):
    """Up to what another processor's sums differ by."""
    made = module_of(CHECKOUT / "docs/examples/splice_checkpoints.py")
    checkpoint.save(made.trained(codecs=example == "learning"), tmp_path / "model.safetensors")
    again = splice_parameters.read_parameters(tmp_path / "model.safetensors")
    rows = read_rows(page.ROWS / example / "splice_parameters.jsonl")
    for row, wanted in zip(again, rows, strict=True):
        assert row == {
            name: pytest.approx(value, abs=2e-3) if isinstance(value, float) else value
            for name, value in wanted.items()
        }


def test_constants_on_the_page_are_those_of_the_code(page):
    text = page.PAGE.read_text()
    assert f"more than {splice_parameters.MOVED} from its start" in text
    assert f"scale is below {splice_parameters.PRUNABLE}" in text
