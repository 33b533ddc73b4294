"""The tables of the page on the GPT-2 family are those that the evidence gives."""

import importlib.util

import pytest

from assay.host import CHECKOUT
from assay.records.schema import SCHEMA, Record


@pytest.fixture(scope="module")
def page():
    path = CHECKOUT / "benchmarks/models_page.py"
    spec = importlib.util.spec_from_file_location("models_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(subject, metric, value, **rest):
    stamp = {"schema": SCHEMA, "run": "r", "session": 1, "stage": "model_cost", "cell": "decode"}
    stamp |= {"fingerprint": "f", "host": "h", "time": "2026-11-15T00:00:00.000Z"}
    return Record(subject=subject, metric=metric, value=value, unit="ms", **stamp, **rest)


def some_records():
    """A baseline, a variant that is twice as slow as predicted, and one that is wrong."""
    rounds = [2.0, 2.2, 1.8, 2.0, 2.0, 2.0]
    failed = {"status": "failed", "reason": "its cache is not its whole pass"}
    return [
        record("cuda:0", "matmul_rate", 750.0, source="a product"),
        record("GPT2", "decode_b64_ms", 1.0, samples=[1.0] * 6, source="events"),
        record("GPT2", "decode_b64_operators", 150.0),
        record("GPT2_MLA", "decode_b64_ms", 2.0, samples=rounds, source="events"),
        record("GPT2_MLA", "decode_b64_operators", 198.0),
        record("GPT2_MLA", "decode_b64_predicted_ratio", 0.5),
        record("GPT2_MLA", "decode_b64_over_predicted", 4.0),
        record("GPT2_MLA", "decode_b64_over_launched", 1.1),
        record("GPT2_MLA", "decode_b1_over_predicted", 1.2),
        record("GPT2_RACT", "decode", None, **failed),
    ]


def test_a_row_has_the_time_the_ratio_and_what_was_predicted(page):
    lines = page.decode(page.by_key(some_records())).splitlines()
    assert lines[2].startswith("| GPT2 |  | 1 |  |  |  |")
    assert lines[3].startswith("| GPT2_MLA |  | 2 | 2.00 (1.90 to 2.10) | 0.50 | 4.00 |")
    assert lines[4].startswith("| GPT2_RACT |  | failed |")


def test_what_is_beyond_the_target_is_listed_with_its_operators(page):
    table = page.beyond(page.by_key(some_records()))
    assert "1 of 2 passes are within 1.25" in table
    assert "| GPT2_MLA | decode_b64 | 4.00 | 1.10 | 198, 150 |" in table


def test_kernels_are_held_against_the_predictions_of_before(page):
    """A new measurement takes the place of the old ratio, never of what was predicted."""
    records = [*some_records(), record("GPT2_MLA", "decode_b64_ratio", 2.0)]
    records += [
        record("GPT2_MLA", "kernels_decode_b64_ms", 0.6),
        record("GPT2_MLA", "kernels_decode_b64_ratio", 0.6),
        record("GPT2_MLA", "kernels_decode_b64_predicted_ratio", 0.9),
    ]
    table = page.kernels(page.by_key(records))
    assert "1 of 1 passes are within 1.25" in table
    assert "| GPT2_MLA | 0.6 | 2.00 | 0.60 | 0.50 | 1.20 |" in table


def test_tables_are_written_between_their_marks(page):
    text = "before\n<!-- table: machine -->\nold\n<!-- end -->\nafter\n"
    written = page.written(text, some_records())
    assert written.startswith("before\n<!-- table: machine -->\n| ceiling |")
    assert "| matmul_rate | 750 ms | a product |" in written
    assert written.endswith("<!-- end -->\nafter\n") and "old" not in written


@pytest.mark.slow
def test_the_page_says_what_the_evidence_says(page):
    if not page.PAGE.is_file():
        pytest.skip("docs/results/models.md is not written yet")
    text = page.PAGE.read_text()
    assert all(f"<!-- table: {name} -->\n" in text for name in page.TABLES)
    records = page.kept_records()
    assert page.written(text, records) == text, "run: python benchmarks/models_page.py"
    slower = [
        record("GPT2_MLA", "training_ms", 9e9) if r.metric == "training_ms" else r for r in records
    ]
    assert page.written(text, slower) != text, "a changed figure would be seen"
