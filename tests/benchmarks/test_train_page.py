"""The table of docs/results/train.md is that of the run beside it."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks import train_costs
from benchmarks.train_step import table

PAGE = Path(__file__).parents[2] / "docs/results/train.md"


def test_the_page_shows_the_run() -> None:
    run = json.loads((PAGE.parent / "train-h200.json").read_text())
    assert run["host"]["dirty"] is False
    _, shown = PAGE.read_text().split("<!-- table: steps -->\n")
    assert shown.partition("\n<!-- end -->")[0] == table(run)
    run["arms"]["loss"]["ms"] = [1.01 * ms for ms in run["arms"]["loss"]["ms"]]
    assert shown.partition("\n<!-- end -->")[0] != table(run)


def test_the_page_shows_what_recomputing_costs() -> None:
    run = json.loads((PAGE.parent / "train-recompute.json").read_text())
    assert run["host"]["dirty"] is False
    _, shown = PAGE.read_text().split("<!-- table: recompute -->\n")
    assert shown.partition("\n<!-- end -->")[0] == train_costs.table(run)
