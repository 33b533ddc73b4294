"""Tables of evals: differences by seed and by item by hand, and what is not compared."""

import pytest
from msgspec.structs import replace
from test_training_figure import BASE, arm, record

from assay.records.schema import Record
from assay.reports.eval_rows import eval_rows
from assay.reports.tables import evals

METRIC = "eval.hellaswag.accuracy"


def scored(model: str, seed: int, samples: list[float], **changes) -> Record:
    data = {
        "seed": seed, "digest": "sha256:a", "items": len(samples), "entry": "hellaswag+file=q",
        "better": "higher", "standard_error": 0.1, **changes,
    }  # fmt: skip
    value = sum(samples) / len(samples)
    return replace(record(model, seed, METRIC, value), samples=samples, data=data)


def both(ours: dict[int, list[float]], theirs: dict[int, list[float]], **changes):
    records = [*arm("GPT2", BASE), *arm("B", BASE)]
    records += [scored("GPT2", seed, samples) for seed, samples in theirs.items()]
    records += [scored("B", seed, samples, **changes) for seed, samples in ours.items()]
    rows = {row.model: row for row in eval_rows("train", records)}
    assert rows["GPT2"].is_baseline and rows["GPT2"].trained
    return rows["B"], evals.tables("train", records)


def test_items_and_seeds_are_paired():
    """Seeds differ by 0.5 and 0.25; items, over seeds, by 1, 0.5, 0, 0."""
    row, (table,) = both(
        {0: [1, 1, 0, 0], 1: [1, 0, 0, 0]}, {0: [0, 0, 0, 0], 1: [0, 0, 0, 0]}
    )  # fmt: skip
    assert row.by_seed == [0.5, 0.25] and row.by_item == [1, 0.5, 0, 0]
    assert row.verdict == "no difference shown" and row.error == pytest.approx(0.1)
    shown = dict(zip(table.columns, table.entries[1], strict=True))
    assert shown["difference"].text.startswith("+0.3750 ± 1.58")
    assert shown["over items"].detail == "n 4" and shown["model"].text == "B"


@pytest.mark.parametrize(
    ("better", "verdict"), [("higher", "better"), ("lower", "worse"), (None, "above")]
)
def test_a_verdict_needs_both_intervals_beyond_zero(better, verdict):
    zeros, ones = [0.0] * 30, [1.0] * 29 + [0.0]
    theirs = {seed: zeros for seed in (0, 1, 2)}
    row, _ = both({seed: ones for seed in (0, 1, 2)}, theirs, better=better)
    assert row.verdict == verdict
    row, _ = both({0: ones}, theirs)
    assert row.verdict == "a single seed is no comparison"


@pytest.mark.parametrize("change", [{"digest": "sha256:b"}, {"entry": "hellaswag+file=r"}])
def test_scores_on_other_items_are_not_compared(change):
    row, (table,) = both({0: [1, 0]}, {0: [0, 0]}, **change)
    assert next(iter(change)) in row.why_not_compared
    assert table.entries[1][-1].text == "not compared"


def test_a_failed_score_has_its_reason_and_no_value():
    failed = replace(scored("GPT2", 0, [1, 0]), value=None, status="failed", reason="constant")
    records = [*arm("GPT2", {0: 3.0}), *arm("B", {0: 3.0}), failed, scored("B", 0, [1, 0])]
    (table,) = evals.tables("train", records)
    assert table.entries[0][2].text == "—" and table.entries[0][2].hint == "constant"
    assert table.entries[1][-1].text == "not compared"
    assert evals.tables("train", arm("GPT2", BASE)) == []
