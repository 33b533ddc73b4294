"""PASS, FAIL or INCOMPLETE in one line, with cases counted of those that were asked for."""

import pytest

from assay.records import verdicts
from assay.records.check_answer import FAIL, INCOMPLETE, PASS, Answer, check_answer
from assay.records.schema import Measurement

TOP_LEFT = "the causal mask is aligned top-left: query i sees keys 0 to i even where Sq != Sk"


def probe(metric: str, cases: int = 3, **changes) -> Measurement:
    fields = {"metric": metric, "value": 0.5, "unit": "ratio", "samples": [0.5] * cases}
    return Measurement(**{**fields, **changes})


def failing(metric: str = "accuracy", **changes) -> Measurement:
    reason = "out is off by 1 at (0, 0); smallest failing case b1_h1" + verdicts.failing(2, 3, 5)
    return probe(metric, **{"status": "failed", "reason": reason, **changes})


def test_every_case_that_was_asked_for_is_counted():
    """Cases that were refused, or for which there was no time, were left out of the count."""
    partly = probe("shapes", 14, reason=verdicts.partial(14, 60))
    refused = probe("strides", 6, reason=verdicts.unsupported(4, "not here"))
    answer = check_answer("my", [probe("accuracy"), partly, refused])
    assert (answer.word, answer.lines) == (PASS, ("PASS  my: 3 probes, 23 of 73 cases",))


def test_a_probe_that_refuses_all_cases_is_no_pass():
    none = probe(
        "window", 0, value=None, status="unsupported", reason=verdicts.unsupported(4, "not here")
    )
    answer = check_answer("my", [probe("accuracy"), none])
    assert answer.lines == ("PASS  my: 1 of 2 probes, 3 of 7 cases",)
    alone = check_answer("my", [none])
    assert alone.word == INCOMPLETE and alone.lines[0].startswith("NOT RUN  my: 4 cases unsupp")
    assert check_answer("my", []).word == INCOMPLETE


def test_time_that_did_not_suffice_is_incomplete_with_a_budget_that_would():
    late = probe("shapes", 10, status="timeout", reason=verdicts.incomplete(10, 57))
    answer = check_answer("my", [probe("accuracy"), late], budget_s=20)
    line = "INCOMPLETE  my: 13 of 60 cases within a budget of 20 s; add --budget-s 190"
    assert (answer.word, answer.lines) == (INCOMPLETE, (line,))


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (TOP_LEFT, "the causal mask is aligned top-left; repeat"),
        (f"{TOP_LEFT} (it fails only where Sq != Sk)", "is aligned top-left; repeat"),
        (f"{TOP_LEFT}, or the diagonal is shifted", "top-left (another cause fits too: see below)"),
        ("a query sees the future: this, that, or something else", "sees the future; repeat"),
        (None, "my: out is off by 1 at (0, 0); repeat"),
    ],
)
def test_a_failure_is_one_clause_and_its_command(cause, words):
    answer = check_answer(
        "my", [probe("shapes"), failing(cause=cause)], repeat=lambda m: f"assay check {m.metric}"
    )
    assert answer.word == FAIL and words in answer.lines[0]
    assert answer.lines[0].endswith("repeat: assay check accuracy")


def test_conditions_stand_beside_a_pass():
    note = Measurement(metric="limits", value=None, unit="", reason="it takes 64")
    assert check_answer("my", [note, probe("accuracy")]).lines[0].endswith("its limits (below)")


def test_the_reach_stands_below_a_pass_in_80_columns():
    data = {
        "tokens": {"forward": 1025, "backward": 512, "causal": 1025},
        "heads": [[128, 1], [64, 8], [40, 40]],
        "batch": 33,
        "head_dim": 256,
        "dtypes": ["float32", "float16"],
        "not_reached": ["bfloat16"],
    }
    reach = Measurement(metric="reach", value=9.0, unit="workloads", data=data)
    lines = str(check_answer("my", [reach, probe("accuracy")])).splitlines()
    assert lines[0] == "PASS  my: 1 probe, 3 of 3 cases" and max(map(len, lines)) <= 80
    text = " ".join(line.strip() for line in lines[1:])
    assert "1,025 tokens forward, causal; 512 tokens backward; batch 33" in text
    assert "heads 128/1, 64/8, 40/40" in text and text.endswith("anything larger, bfloat16")
    assert str(check_answer("my", [reach, failing()])).count("\n") == 0


def test_a_failure_counts_the_cases_that_were_not_run():
    assert verdicts.count_cases(failing()) == (3, 8)
    assert verdicts.cases_failing(failing()) == "2 of 3"


def test_more_than_three_lines_are_counted():
    answer = Answer(word=PASS, lines=tuple("abcde"))
    assert answer.brief == ("a", "b", "c", "and 2 more below") and str(answer).count("\n") == 3
