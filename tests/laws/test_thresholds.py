"""Recommendations by length: changed only by real differences, and never to what is wrong."""

import json

import msgspec
import pytest
from law_records import HOST, LENGTHS, RUN, eager, flash, level, record, run_json, timed, workload

from assay.errors import BadInput
from assay.laws.thresholds import recommend
from assay.laws.thresholds_file import read, write


def of(records):
    """The choices of the only class, as pairs."""
    (advice,) = recommend(records)
    return [(choice.start, choice.use) for choice in advice.choices]


def outcome(subject, length, status="oom"):
    return record(
        "latency", None, status=status, reason="no room", subject=subject, workload=workload(length)
    )


def test_the_crossing_is_where_the_choice_changes():
    (advice,) = recommend([*timed("eager", eager), *timed("flash", flash)])
    first, second = advice.choices
    assert (first.start, first.use, second.use) == (LENGTHS[0], "eager", "flash")
    assert second.start == pytest.approx(1100, rel=0.03)
    assert advice.words == (
        f"use eager below {second.start:,} tokens, flash from {second.start:,} tokens "
        f"(measured from {LENGTHS[0]:,} to {LENGTHS[-1]:,})"
    )
    assert advice.lengths == LENGTHS and advice.batches == (1,)
    assert (advice.workloads.heads, advice.workloads.kv_heads) == (32, 8)


def test_the_order_of_the_records_does_not_decide_where_a_difference_is_real():
    choices = of([*timed("flash", flash), *timed("eager", eager)])
    assert [use for _, use in choices] == ["eager", "flash"]


def test_the_first_stays_where_no_difference_is_real():
    (advice,) = recommend(level())
    assert advice.words.startswith("use eager at every length (measured from ")


def test_one_length_gives_no_advice():
    """It said "from 1" of what was measured at 4,096 tokens alone."""
    assert (
        recommend([r for f in (eager, flash) for r in timed(f.__name__, f, lengths=(4096,))]) == []
    )


def test_subjects_that_share_no_cell_give_no_advice():
    elsewhere = timed("flash", flash, cell="elsewhere")
    assert recommend([*timed("eager", eager), *elsewhere]) == []


def test_the_fastest_of_several_is_chosen():
    third = timed("sdpa", lambda s: flash(s) / 4)
    choices = of([*timed("eager", eager), *timed("flash", flash), *third])
    assert [use for _, use in choices] == ["eager", "sdpa"]
    assert choices[1][0] == pytest.approx(275, rel=0.05)


def test_a_subject_without_room_is_left_before_that_length():
    slow = timed("flash", lambda s: 2 * eager(s), lengths=(*LENGTHS, 16384))
    assert of([*timed("eager", eager), outcome("eager", 16384), *slow]) == [
        (LENGTHS[0], "eager"),
        (8193, "flash"),
    ]


def test_what_was_not_measured_at_a_length_is_kept():
    slow = timed("flash", lambda s: 2 * eager(s), lengths=(*LENGTHS, 16384))
    assert of([*timed("eager", eager), *slow]) == [(LENGTHS[0], "eager")]


def test_alone_is_no_evidence_of_speed():
    quick = timed("flash", lambda s: eager(s) / 9, alone=True)
    assert of([*timed("eager", eager), *quick]) == [(LENGTHS[0], "eager")]


@pytest.mark.parametrize(
    ("stage", "checked", "uses"),
    [
        ("check", workload(256), ["eager", "sdpa"]),
        ("suite", None, ["eager", "sdpa"]),
        ("check", workload(256, dtype="float16"), ["eager", "flash"]),
    ],
)
def test_what_failed_a_check_of_its_class_is_not_used(stage, checked, uses):
    check = {"stage": stage, "subject": "flash", "workload": checked}
    wrong = record("error_over_budget_out", 9.0, status="failed", reason="wrong", **check)
    sdpa = timed("sdpa", lambda s: 2 * flash(s))
    records = [wrong, *timed("eager", eager), *timed("flash", flash), *sdpa]
    assert [use for _, use in of(records)] == uses


def test_every_batch_must_show_the_difference():
    def batch(count, value_at):
        timings = [*timed("eager", eager), *timed("flash", value_at)]
        return [
            msgspec.structs.replace(
                timing, workload=workload(length, batch=count), cell=f"b{count}"
            )
            for length, timing in zip(LENGTHS * 2, timings, strict=True)
        ]

    apart = [*batch(1, flash), *batch(8, lambda s: eager(s) * 1.5)]
    assert of(apart) == [(LENGTHS[0], "eager")]
    (advice,) = recommend([*batch(1, flash), *batch(8, flash)])
    assert advice.batches == (1, 8) and [choice.use for choice in advice.choices] == [
        "eager",
        "flash",
    ]


def test_a_class_with_one_subject_or_an_unusual_workload_has_no_recommendation():
    assert recommend(timed("eager", eager)) == []
    masked = [
        msgspec.structs.replace(timing, workload=workload(1024, window=64))
        for name in ("eager", "flash")
        for timing in timed(name, eager, lengths=(1024,))
    ]
    assert recommend(masked) == []


def test_layers_choose_among_their_own_cores():
    layer = {"stage": "layers", "level": "layer"}
    records = [
        *timed("gemma", lambda s: 1e-9, **layer),  # what it chooses itself is no choice
        *timed("gemma:xla", eager, **layer),
        *timed("gemma:cudnn", flash, **layer),
        *timed("gemma_fast:xla", eager, **layer),
        *timed("gemma_fast:pallas", lambda s: eager(s) / 2, **layer),
    ]
    choices = {
        advice.workloads.layer: [choice.use for choice in advice.choices]
        for advice in recommend(records)
    }
    assert choices == {"gemma": ["gemma:xla", "gemma:cudnn"], "gemma_fast": ["gemma_fast:pallas"]}


def test_the_file_says_all_and_keeps_other_hosts(tmp_path):
    file = tmp_path / "results" / "thresholds.json"
    here = [*timed("eager", eager), *timed("flash", flash)]
    elsewhere = [msgspec.structs.replace(record, host="another") for record in here]
    write(file, recommend(elsewhere), [run_json(host="another", name="run-0")])
    write(file, recommend(here), [run_json()])
    content = json.loads(file.read_text())
    assert content["schema"] == 1 and set(content["hosts"]) == {HOST, "another"}
    entry = content["hosts"][HOST]
    assert (entry["device"], entry["run"], entry["commit"]) == (
        "A GPU",
        RUN,
        "0123456789abcdef0123",
    )
    (written,) = entry["classes"]
    start = written["choices"][1]["from"]
    assert written == {
        "level": "kernel", "heads": 32, "kv_heads": 8, "head_dim": 128, "dtype": "bfloat16",
        "causal": True, "metric": "latency_ms", "batches": [1], "lengths": list(LENGTHS),
        "choices": [{"from": LENGTHS[0], "use": "eager"}, {"from": start, "use": "flash"}],
    }  # fmt: skip
    assert read(file).hosts["another"]["run"] == "run-0"


@pytest.mark.parametrize("content", ["{", '{"schema": 2, "hosts": {}}', '{"schema": 1}', "[]"])
def test_a_file_that_is_something_else_is_not_replaced(tmp_path, content):
    file = tmp_path / "thresholds.json"
    file.write_text(content)
    with pytest.raises(BadInput, match=r"thresholds\.json.*move it away"):
        write(file, recommend([*timed("eager", eager), *timed("flash", flash)]), [run_json()])
    assert file.read_text() == content
