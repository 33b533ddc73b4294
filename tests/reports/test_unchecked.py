"""A wrong number must not leave: speeds without a passed check are nowhere in a report."""

import json

import pytest
from build_run import append, begin, checked, end, latency

from assay.reports.build import build
from assay.reports.contents import read_contents
from assay.reports.unchecked import refuse_unchecked

SPEED = 7.654321  # a number that stands nowhere else


def run_with(tmp_path, *checks, stage="check"):
    made = begin(tmp_path / "run")
    for index, check in enumerate(checks):
        append(made, stage, f"c{index}", check)
        end(made, stage)
    append(made, "bench", "k128", latency("sdpa", [SPEED] * 3))
    end(made, "bench")
    return made


def speed_of(made):
    """The time that may be reported, or None where it is refused."""
    records = refuse_unchecked(read_contents(made).records)
    [record] = [record for record in records if record.metric == "latency_ms"]
    assert record.status == ("refused" if record.value is None else "ok")
    return record.value


def failing(**changes):
    fields = {"value": 40.0, "status": "failed", "reason": "out is 40 times over budget"}
    return checked("sdpa", **{**fields, **changes})


def test_a_passed_check_lets_the_speed_through(tmp_path):
    made = run_with(tmp_path, checked("sdpa"))
    assert speed_of(made) == SPEED


@pytest.mark.parametrize(
    ("checks", "stage", "why"),
    [
        ([failing()], "check", "its check on this workload has status failed"),
        ([failing(), checked("sdpa")], "check", "its check on this workload has status failed"),
        ([failing(workload=None)], "suite", "it fails error_over_budget_out"),
        ([], "check", "it has passed no check on this workload"),
        ([checked("sdpa", 256)], "check", "it has passed no check on this workload"),
        ([checked("eager")], "check", "it has passed no check on this workload"),
    ],
)
def test_without_one_no_file_holds_the_speed(tmp_path, checks, stage, why):
    made = run_with(tmp_path, *checks, stage=stage)
    built = build(made)
    assert any(why in problem for problem in built.report.problems)
    for path in (built.html, built.markdown, built.summary, *built.results):
        text = path.read_text()
        assert "7.654" not in text, path
    assert why in built.summary.read_text().replace("\n  ", " ")
    [row] = json.loads((made.path / "performance_results.json").read_text())["results"]
    assert row["status"] == "refused" and why in row["reason"]
    assert row["values"][0]["value"] is None and row["values"][0]["samples"] == []
    assert not any("bench" in path.stem for path in built.figures)


def test_a_forward_that_has_no_backward_is_still_told(tmp_path):
    unsupported = checked(
        "sdpa", value=None, status="unsupported", reason="no backward", metric="gradients"
    )
    made = run_with(tmp_path, checked("sdpa"), unsupported)
    assert speed_of(made) == SPEED


@pytest.mark.parametrize("status", ["ok", "failed"])
def test_layers_are_checked_in_their_own_stage(tmp_path, status):
    made = begin(tmp_path / "run")
    verdict = failing() if status == "failed" else checked("sdpa")
    append(made, "layers", "k128", verdict, latency("sdpa", [SPEED] * 3))
    assert speed_of(made) == (SPEED if status == "ok" else None)
