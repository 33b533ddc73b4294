"""The tables of docs/results/growth.md are those of the figures beside it."""

import json
import math

import pytest

from benchmarks import growth_page

GROWTH = {"plan": 0.0, "status": 1.0, "resume": 2.0, "query": 0.5, "report": 1.5}


def test_the_page_says_what_the_figures_say():
    text = growth_page.PAGE.read_text()
    assert growth_page.written(text) == text, "run: python benchmarks/growth_page.py"
    assert text.count("| `report` |") == 2


def test_exponents_are_those_of_the_two_largest_sizes(tmp_path, monkeypatch):
    monkeypatch.setattr(growth_page, "RESULTS", tmp_path / "growth.json")
    costs = [
        {"verb": verb, "grown": "records", "cells": 10, "records": size, "peak_bytes": 2_000_000,
         "cpu_s": 1.0 if size == 10 else (size / 100) ** power}
        for verb, power in GROWTH.items()
        for size in (1_000, 10, 100)
    ]  # fmt: skip
    growth_page.RESULTS.write_text(json.dumps({"conditions": {}, "costs": costs}))
    rows = growth_page.table("records").splitlines()
    assert rows[0] == "| verb | 10 records | 100 records | 1,000 records | exponent | peak memory |"
    for row, (verb, power) in zip(rows[2:], GROWTH.items(), strict=True):
        _, name, _, _, seconds, exponent, memory, _ = (cell.strip() for cell in row.split("|"))
        assert (name, memory) == (f"`{verb}`", "2 MB")
        assert math.isclose(float(exponent), power)
        assert seconds == f"{10**power:.1f} s"


@pytest.mark.slow
def test_small_runs_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(growth_page, "SUBJECTS", ("status",))
    sizes = {"cells": [[8, 80], [16, 160]], "records": [[8, 800], [8, 10**6]]}
    monkeypatch.setattr(growth_page, "SIZES", sizes)
    made = growth_page.measure(processes=2, largest=800, scratch=tmp_path)
    assert sorted((cost["cells"], cost["records"]) for cost in made["costs"]) == [
        (8, 80), (8, 800), (16, 160),
    ]  # fmt: skip
    assert all(cost["cpu_s"] > 0 and cost["peak_bytes"] > 1 << 20 for cost in made["costs"])
    assert not list(tmp_path.iterdir()), "what was made is left behind"
