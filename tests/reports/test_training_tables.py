"""Tables of training: differences by seed and their interval by hand, and what is not compared."""

from io import StringIO
from itertools import product
from math import exp, sqrt

import pytest
from build_run import append, begin, end
from msgspec.structs import replace
from rich.console import Console
from test_training_figure import BASE, OOM, arm, final, record, reports

from assay.records.schema import Measurement, Record
from assay.reports.contents import read_contents
from assay.reports.markdown import table_lines
from assay.reports.report import compose
from assay.reports.tables import train
from assay.reports.terminal import show
from assay.reports.training_rows import PairedDifference, half_interval, paired, trained_models

NULL = "no difference shown"
T_2 = 4.3027  # Student's t for 2 degrees of freedom, 0.975


def compare(*records) -> PairedDifference:
    baseline, model = trained_models([each for group in records for each in group])
    return paired(model, baseline)


def row(table, name) -> dict:
    [entries] = [entries for entries in table.entries if entries[0].text == name]
    return dict(zip(table.columns, entries, strict=True))


def test_the_difference_is_taken_seed_by_seed():
    """Differences 0.01, 0.02, 0.03: mean 0.02, deviation 0.01, half 4.3027 * 0.01 / sqrt(3). The
    losses themselves spread five times as far, which would hide the difference."""
    pair = compare(arm("GPT2", BASE), arm("GPT2_MLA", {0: 3.01, 1: 3.12, 2: 3.08}))
    assert pair.by_seed == pytest.approx({0: 0.01, 1: 0.02, 2: 0.03})
    assert pair.mean == pytest.approx(0.02)
    assert pair.half_width == pytest.approx(0.024842, abs=1e-6)
    assert pair.smallest_detectable == pair.half_width
    assert pair.baseline_loss == pytest.approx(3.05) and pair.share == pytest.approx(0.02 / 3.05)
    assert pair.verdict == NULL and not pair.caveats


@pytest.mark.parametrize(
    ("shift", "verdict"),
    [(0.05, "worse"), (0.0255, "worse"), (0.024, NULL), (-0.024, NULL), (-0.0255, "better")],
)
def test_the_verdict_is_whether_the_interval_leaves_out_zero(shift, verdict):
    losses = {0: 3.00 + shift - 0.01, 1: 3.10 + shift, 2: 3.05 + shift + 0.01}
    assert compare(arm("GPT2", BASE), arm("B", losses)).verdict == verdict


def test_an_interval_of_two_values_by_hand():
    assert half_interval([1.0, 3.0]) == pytest.approx(12.7062 * sqrt(2) / sqrt(2), rel=1e-4)
    assert half_interval([1.0]) is None


def test_seeds_are_paired_by_number_not_by_place():
    pair = compare(arm("GPT2", BASE), arm("B", {2: 3.15, 0: 3.10, 1: 3.20}))
    assert pair.by_seed == pytest.approx({0: 0.1, 1: 0.1, 2: 0.1})


def test_a_single_seed_is_no_comparison():
    pair = compare(arm("GPT2", {0: 3.0}), arm("B", {0: 2.0}))
    assert (pair.mean, pair.half_width, pair.smallest_detectable) == (-1.0, None, None)
    assert pair.verdict == "a single seed is no comparison"
    _, against = train.tables("train", [*arm("GPT2", {0: 3.0}), *arm("B", {0: 2.0})])
    assert row(against, "B")["difference"].text == "-1.0000"
    assert row(against, "B")["smallest shown"].needs_reason


def test_two_seeds_are_said():
    pair = compare(arm("GPT2", {0: 3.0, 1: 3.1}), arm("B", {0: 3.2, 1: 3.4}))
    assert pair.caveats == ("2 seeds only",) and pair.verdict == NULL
    assert pair.half_width == pytest.approx(12.7062 * 0.05, rel=1e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"eval_stream": "e2"}, "not validated on the same windows (e2 against e1)"),
        ({"dataset_digest": "d2"}, "not trained on the same data (d2 against d1)"),
        ({"stopped_by": "time"}, "not ended by the same limit (time against steps)"),
        ({"tokens": 1001}, "trained on 1,001 tokens against 1,000"),
        ({"samples": [3.0] * 3}, "the loss is of 3 windows against 2"),
        ({"eval_stream": None}, "eval_stream is not recorded"),
    ],
)
def test_what_is_not_alike_is_not_compared(change, words):
    """Two seeds are alike, and the third refuses them all."""
    records = [*arm("GPT2", BASE), *arm("B", {0: 3.1, 1: 3.2}), *final("B", 2, 3.0, **change)]
    pair = compare(records)
    assert (pair.mean, pair.half_width, pair.verdict) == (None, None, "not compared")
    assert pair.reason.startswith("seed 2: ") and words in pair.reason
    difference = row(train.tables("train", records)[1], "B")["difference"]
    assert difference.text == "—" and words in difference.hint and difference.needs_reason


def test_a_seed_that_one_arm_lacks_is_left_out_and_named():
    pair = compare(arm("GPT2", BASE), arm("B", {0: 3.1, 2: 3.12}))
    assert list(pair.by_seed) == [0, 2] and pair.baseline_loss == pytest.approx(3.025)
    assert pair.caveats == ("2 seeds only", "seed 1 left out, B: not trained")


def test_no_seed_in_common_is_a_reason():
    pair = compare(arm("GPT2", {0: 3.0, 1: 3.0}), arm("B", {2: 3.0}))
    assert pair.reason == "no seed in common: B has 2 and GPT2 has 0, 1" and pair.mean is None


def test_seeds_that_change_nothing_are_an_objection():
    pair = compare(arm("GPT2", BASE), arm("B", dict.fromkeys(BASE, 3.0)))
    assert pair.caveats == ("B has the same loss with each seed",)


def test_a_failed_seed_is_counted_and_the_others_are_compared():
    lost = record("B", 1, "final_val_loss", None, **OOM)
    records = [*arm("GPT2", BASE), *arm("B", {0: 3.1, 2: 3.2}), lost]
    training, against = train.tables("train", records)
    seeds = row(training, "B")["seeds"]
    assert (seeds.text, seeds.tone) == ("2 of 3", "oom")
    assert seeds.hint == "seed 1: 16 GiB wanted, 7 GiB free" and seeds.needs_reason
    assert row(training, "B")["loss"].text == "3.1500"
    verdict = row(against, "B")["verdict"]
    assert "seed 1 left out, B: 16 GiB wanted, 7 GiB free" in verdict.detail


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ([record("B", 0, "final_val_loss", None, **OOM)], OOM["reason"]),
        ([record("B", 0, "train", None, status="refused", reason="no such model")], "no such"),
        (reports("B", 0, [9.0, 8.0]), "training has not ended"),
    ],
    ids=["failed", "refused", "unfinished"],
)
def test_an_arm_without_a_loss_is_a_row_with_the_reason(ending, reason):
    training, against = train.tables("train", [*arm("GPT2", BASE), *ending])
    for column in ("loss", "perplexity", "best loss", "tokens", "time (s)", "unmoved"):
        entry = row(training, "B")[column]
        assert entry.text == "—" and reason in entry.hint and entry.needs_reason
    assert reason in row(against, "B")["difference"].hint
    assert row(training, "B")["seeds"].text == "0 of 1"


def test_a_loss_that_failed_is_not_built_on():
    """A value may be recorded beside a failure; it is no result."""
    bad = record("B", 0, "final_val_loss", 2.0, status="failed", reason="weights are not finite")
    pair = compare(arm("GPT2", BASE), [bad])
    assert pair.mean is None and "weights are not finite" in pair.reason


def test_the_latest_attempt_counts():
    again = [
        *final("B", 0, 3.02, attempt=2),
        *arm("GPT2", BASE),
        *final("B", 0, 9.0),
        *arm("B", {1: 3.12, 2: 3.07}),
    ]
    baseline, model = trained_models(again)[::-1]
    assert (baseline.name, model.name) == ("GPT2", "B"), "in the order of first appearance"
    assert paired(model, baseline).mean == pytest.approx(0.02)
    lost = record("B", 0, "final_val_loss", None, attempt=3, **OOM)
    assert list(trained_models([*again, lost])[0].ended) == [1, 2]


def timed(model, tokens) -> list[Record]:
    losses = {0: 3.0, 1: 3.1, 2: 3.2}
    seen = [each for seed in losses for each in reports(model, seed, [4.0, 3.5])]
    return [*seen, *arm(model, losses, stopped_by="time", tokens=tokens)]


@pytest.mark.parametrize(
    ("tokens", "caveats"),
    [(1000, ()), (1100, ()), (1101, ("equal time, but 1,101 tokens against 1,000",))],
)
def test_runs_of_equal_time_may_differ_in_tokens_and_say_so(tokens, caveats):
    """Reports are 100 tokens apart; a difference of that size is where the clock was read."""
    pair = compare(timed("GPT2", 1000), timed("B", tokens))
    assert pair.caveats == caveats and pair.mean == 0 and pair.verdict == NULL


def test_a_row_of_training():
    peaks = [record("GPT2", seed, "peak_bytes", (seed + 1) * 2**30, unit="B") for seed in BASE]
    [training] = train.tables("train", [*arm("GPT2", BASE), *peaks])
    shown = {column: entry.text for column, entry in row(training, "GPT2").items()}
    assert shown == {
        "model": "GPT2", "seeds": "3", "parameters": "1,234,567", "tokens": "1,000",
        "loss": "3.0500", "perplexity": "21.12", "best loss": "3.0400", "tokens/s": "50",
        "peak": "3 GiB", "time (s)": "21.0", "unmoved": "0", "of matmul": "—",
    }  # fmt: skip
    assert row(training, "GPT2")["loss"].detail == "3.0000–3.1000"
    half = T_2 * 0.05 / sqrt(3)
    low, high = (float(t) for t in row(training, "GPT2")["perplexity"].detail.split("–"))
    assert (low, high) == pytest.approx((exp(3.05 - half), exp(3.05 + half)), rel=1e-3)


def test_a_loss_beyond_any_perplexity_is_shown():
    [training] = train.tables("train", arm("GPT2", {0: 3.0, 1: 900.0}))
    assert row(training, "GPT2")["perplexity"].detail.endswith("over 4.60e299")


def test_unmoved_parameters_are_a_failure_with_its_reason():
    stuck = record(
        "GPT2",
        1,
        "unmoved_parameters",
        512,
        unit="count",
        status="failed",
        reason="wpe never moved",
    )
    [training] = train.tables("train", [*arm("GPT2", BASE), stuck])
    entry = row(training, "GPT2")["unmoved"]
    assert (entry.text, entry.tone, entry.hint) == ("512", "failed", "wpe never moved")


def test_parts_are_means_of_the_last_values():
    parts = [
        record("B", seed, "part.gate", value, data={"step": step})
        for seed, value, step in ((0, 9.0, 1), (0, 1.0, 2), (1, 2.0, 2))
    ]
    [*_, table] = train.tables("train", [*arm("GPT2", BASE), *arm("B", BASE), *parts])
    assert (table.title, table.columns) == ("Parts", ("part", "B"))
    assert row(table, "gate")["B"].text == "1.500" and row(table, "gate")["B"].detail == "1–2"


def test_a_report_shows_a_null_result_as_any_other(tmp_path):
    run = begin(tmp_path / "run")
    names = Measurement.__struct_fields__
    for model, seed in product(("GPT2", "B"), BASE):
        own = final(model, seed, BASE[seed])
        fields = [{name: getattr(each, name) for name in names} for each in own]
        append(run, "train", f"{model}/s{seed}", *(Measurement(**each) for each in fields))
    end(run, "train")
    report = compose(read_contents(run))
    assert [table.title for table in report.results] == ["Training", "Against GPT2"]
    screen = Console(file=StringIO(), width=160)
    for table in report.results:
        show(table, screen)
    assert "+0.0000 ± 0.0000 (n 3)" in screen.file.getvalue() and not report.problems
    lines = "\n".join(table_lines(report.results[1]))
    assert "| B | +0.0000 ± 0.0000 (n 3) | +0.00% | 0.0000 | no difference shown |" in lines


def test_every_column_is_defined_below_its_table():
    for table in train.tables("train", [*arm("GPT2", BASE), *arm("B", BASE)]):
        terms = {f"{column.removesuffix(' (s)').capitalize()}: " for column in table.columns}
        assert not [term for term in terms if term not in table.note]


def test_flops_are_a_share_of_what_the_device_reached():
    flops = record("GPT2", 0, "mean_model_tflop_per_s", 200.0, unit="TFLOP/s")
    ceiling = replace(flops, stage="host", subject="cuda:0", metric="matmul_rate", value=800.0)
    records = [*arm("GPT2", {0: 3.0}, device="cuda:0"), flops]
    [training] = train.tables("train", [*records, ceiling])
    assert row(training, "GPT2")["of matmul"].text == "25.0%"
    [training] = train.tables("train", records)
    assert "add the stage host" in row(training, "GPT2")["of matmul"].hint
    [training] = train.tables("train", [*records, replace(ceiling, subject="cpu")])
    assert "add the stage host" in row(training, "GPT2")["of matmul"].hint
