"""Losses over tokens: means over the seeds that ended, their range, and what is left off."""

import json

import pytest

from assay.records.schema import SCHEMA, Record
from assay.reports import style
from assay.reports.chart import ChartGroup
from assay.reports.extensions import draw_charts
from assay.reports.figures import training
from assay.reports.interactive import figure_json
from assay.reports.printed import png

BASE = {0: 3.00, 1: 3.10, 2: 3.05}
OOM = {"status": "oom", "reason": "16 GiB wanted, 7 GiB free"}
VALIDATION = {0: [5.0, 4.0, 3.0], 1: [5.5, 4.2, 3.4], 2: [6.0, 4.1, 3.2]}


def record(model, seed, metric, value, *, unit="nats", data=None, attempt=1, **changes) -> Record:
    """One record of training a model with a seed."""
    return Record(
        schema=SCHEMA, run="r", session=attempt, stage="train", cell=f"{model}/s{seed}",
        fingerprint="f" * 16, host="h", time="2025-01-01T00:00:00.000Z", attempt=attempt,
        metric=metric, value=value, unit=unit, subject=model, level="model",
        data={"seed": seed, **(data or {})}, **changes,
    )  # fmt: skip


def reports(model, seed, losses, *, metric="train_loss", every=100, **changes) -> list[Record]:
    """A loss at each report, `every` tokens apart."""
    return [
        record(model, seed, metric, loss, data={"step": n, "tokens": n * every}, **changes)
        for n, loss in enumerate(losses, start=1)
    ]


def final(model, seed, loss, *, attempt=1, samples=(), **data) -> list[Record]:
    """The end of a run that went well: 1,000 tokens in a given number of steps."""
    facts = {
        "step": 10, "tokens": 1000, "eval_stream": "e1", "dataset": "tiny",
        "dataset_digest": "d1", "stopped_by": "steps", **data,
    }  # fmt: skip
    ends = {
        "best_val_loss": (loss - 0.01, "nats"),
        "train_seconds": (20.0 + seed, "s"),
        "mean_tokens_per_s": (50.0, "tokens/s"),
        "parameters": (1_234_567, "count"),
        "unmoved_parameters": (0, "count"),
    }
    windows = list(samples) or [loss - 0.5, loss + 0.5]
    return [
        record(model, seed, "final_val_loss", loss, data=facts, samples=windows, attempt=attempt),
        *(record(model, seed, m, v, unit=u, attempt=attempt) for m, (v, u) in ends.items()),
    ]


def arm(model, losses, **data) -> list[Record]:
    return [each for seed, loss in losses.items() for each in final(model, seed, loss, **data)]


def validated(model, losses, **changes):
    return [
        each
        for seed, values in losses.items()
        for each in reports(model, seed, values, metric="val_loss", every=1_000_000, **changes)
    ]


def test_a_line_is_the_mean_over_seeds_with_their_range():
    [chart] = training.draw([*validated("GPT2", VALIDATION), *arm("GPT2", BASE)])
    [line] = chart.series
    assert (chart.name, line.subject) == ("validation_loss", "GPT2")
    assert line.x == (1.0, 2.0, 3.0) and line.y == pytest.approx((5.5, 4.1, 3.2))
    assert (line.low, line.high) == ((5.0, 4.0, 3.0), (6.0, 4.2, 3.4))
    assert line.hints == ("3 seeds",) * 3 and not line.note and "not drawn" not in chart.note


def test_training_loss_is_a_chart_of_its_own():
    records = [*validated("GPT2", VALIDATION), *reports("GPT2", 0, [9.0, 8.0]), *arm("GPT2", BASE)]
    charts = training.draw([*records, *arm("B", BASE), *validated("B", VALIDATION)])
    names = ["validation_loss", "validation_difference", "training_loss"]
    assert [chart.name for chart in charts] == names
    assert [line.subject for line in charts[0].series] == ["GPT2", "B"]
    [line] = charts[2].series
    assert line.y == (9.0, 8.0) and not line.low, "a single seed has no range"


def test_a_seed_that_failed_is_named_and_is_in_no_mean():
    """A run that diverged early would lower or raise the mean up to where it ended."""
    losses = {0: [5.0, 4.0], 1: [99.0], 2: [6.0, 4.2]}
    records = [*validated("GPT2", losses), *arm("GPT2", {0: 4.0, 2: 4.2})]
    [chart] = training.draw([*records, record("GPT2", 1, "final_val_loss", None, **OOM)])
    assert chart.series[0].y == pytest.approx((5.5, 4.1))
    assert chart.note.endswith("not drawn: GPT2 seed 1 (oom)")


def test_a_model_without_a_point_is_named():
    lost = record("B", 0, "train", None, status="refused", reason="no such model")
    [chart] = training.draw([*validated("GPT2", VALIDATION), *arm("GPT2", BASE), lost])
    assert chart.note.endswith("not drawn: B (refused)")


def test_a_model_whose_seeds_share_no_report_is_named():
    lonely = [*reports("B", 0, [3.0], metric="val_loss"), *final("B", 0, 3.0)]
    lonely += [*reports("B", 1, [3.0], metric="val_loss", every=7), *final("B", 1, 3.0)]
    [chart] = training.draw([*validated("GPT2", VALIDATION), *arm("GPT2", BASE), *lonely])
    assert chart.note.endswith("not drawn: B (no report that its seeds share)")


def test_a_run_that_goes_on_is_drawn_and_says_so():
    [chart] = training.draw(validated("GPT2", {0: [5.0, 4.0], 1: [6.0]}))
    [line] = chart.series
    assert (line.x, line.y) == ((1.0,), (5.5,))
    assert line.note == "without a final loss (unfinished), only where all seeds reported"


def test_the_latest_attempt_is_drawn():
    records = [*validated("GPT2", {0: [9.0, 9.0]}), *final("GPT2", 0, 9.0)]
    again = [*validated("GPT2", {0: [5.0, 4.0]}, attempt=2), *final("GPT2", 0, 4.0, attempt=2)]
    [chart] = training.draw([*records, *again])
    assert chart.series[0].y == (5.0, 4.0)


@pytest.mark.parametrize(("count", "drawn", "note"), [(60, 60, ""), (150, 50, "one report of 3")])
def test_of_many_reports_some_are_drawn_and_the_last_is_among_them(count, drawn, note):
    records = [*reports("GPT2", 0, [float(n) for n in range(count)]), *final("GPT2", 0, 3.0)]
    [line] = training.draw(records)[0].series
    assert (len(line.y), line.y[-1], line.note) == (drawn, count - 1.0, note)


def test_page_and_print_draw_it_and_nothing_of_nothing():
    charts, problems = draw_charts([*validated("GPT2", VALIDATION), *arm("GPT2", BASE)])
    assert [chart.name for chart in charts] == ["validation_loss"] and not problems
    colours = style.colours(["GPT2"])
    page = json.loads(figure_json(charts[0], colours))
    assert page["data"][0]["error_y"]["arrayminus"] == pytest.approx([0.5, 0.1, 0.2])
    assert png(ChartGroup(charts=(charts[0],)), colours).startswith(b"\x89PNG")
    assert training.draw([]) == []


def test_differences_are_taken_seed_by_seed():
    """Means of unequal seeds would be seven times as far apart as the pairs are."""
    shifted = {seed: [loss + 0.1 for loss in losses] for seed, losses in VALIDATION.items()}
    records = [*validated("GPT2", VALIDATION), *arm("GPT2", BASE)]
    records += [*validated("B", shifted), *arm("B", BASE)]
    _, chart = training.draw(records)
    (line,) = chart.series
    assert line.subject == "B" and line.y == pytest.approx([0.1] * 3)
    assert line.low == pytest.approx(line.y) and line.high == pytest.approx(line.y)
    assert chart.title.endswith("GPT2")


def test_models_that_cannot_be_compared_have_no_difference():
    other = arm("B", BASE, eval_stream="e2")
    records = [*validated("GPT2", VALIDATION), *arm("GPT2", BASE), *validated("B", VALIDATION)]
    assert [chart.name for chart in training.draw([*records, *other])] == ["validation_loss"]
