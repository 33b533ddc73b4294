"""The tables of docs/results/train.md are those of the runs beside it."""

import json
from pathlib import Path
from statistics import median

import pytest

pytest.importorskip("torch")

from benchmarks import train_costs, train_page
from benchmarks.train_step import table

PAGE = Path(__file__).parents[2] / "docs/results/train.md"


def test_the_page_shows_the_run() -> None:
    run = json.loads((PAGE.parent / "train-h200.json").read_text())
    assert run["host"]["dirty"] is False
    _, shown = PAGE.read_text().split("<!-- table: steps -->\n")
    assert shown.partition("\n<!-- end -->")[0] == table(run)
    run["arms"]["loss"]["ms"] = [1.01 * ms for ms in run["arms"]["loss"]["ms"]]
    assert shown.partition("\n<!-- end -->")[0] != table(run)


@pytest.mark.parametrize("name", ["recompute-cpu", "recompute-h200", "pruning-h200"])
def test_the_page_shows_what_recomputing_and_pruning_cost(name) -> None:
    run = json.loads((PAGE.parent / f"train-{name}.json").read_text())
    assert run["host"]["dirty"] is False
    _, shown = PAGE.read_text().split(f"<!-- table: {name} -->\n")
    assert shown.partition("\n<!-- end -->")[0] == train_costs.table(run)


def test_pruning_costs_no_more_than_was_asked_for() -> None:
    """1.1 times the step of its base optimizer, and a byte for each weight."""
    arms = json.loads((PAGE.parent / "train-pruning-h200.json").read_text())["arms"]
    weights = 12 * 12 * 768**2
    for name in ("magnitude", "bitter0", "bitter7", "adamwspam, bitter7"):
        base = arms[train_costs.BASES.get(name, "adamw")]
        pairs = list(zip(arms[name], base, strict=True))
        assert median(own["ms"] / other["ms"] for own, other in pairs) < 1.1
        assert max(own["bytes"] - other["bytes"] for own, other in pairs) <= weights


def test_the_tables_of_evidence_are_those_of_the_page() -> None:
    text = PAGE.read_text()
    assert train_page.written(text) == text, "run: python benchmarks/train_page.py"
    assert train_page.written(text.replace("3.7641", "3.7640")) == text
