"""The tables of the results page are those that the evidence gives."""

import importlib.util

import pytest

from assay.host import CHECKOUT


def page_module():
    path = CHECKOUT / "benchmarks/bench_page.py"
    spec = importlib.util.spec_from_file_location("bench_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_says_what_the_evidence_says():
    module = page_module()
    text = module.PAGE.read_text()
    assert all(
        f"<!-- table: {name} -->\n| " in text or name == "agreement" for name in module.TABLES
    )
    assert module.written(text) == text, "run: python benchmarks/bench_page.py"


@pytest.mark.slow
def test_a_changed_figure_would_be_seen():
    module = page_module()
    text = module.PAGE.read_text()
    assert module.written(text.replace("18,248", "19,248")) != text.replace("18,248", "19,248")
