"""Results held against earlier ones: what got worse is named, nothing else is."""

from pathlib import Path

import pytest
from laws import law_records
from reports.build_run import append, begin, checked, latency, workload

import assay
from assay.attention.sequence import eager
from assay.errors import BadInput
from assay.laws.noise import AA, PLANTED, ROUNDS, SHARE

EVIDENCE = Path(__file__).parents[2] / "evidence" / "readme-bench"


def run(path, *measured, **changes):
    append(begin(path, **changes), "bench", "cell", *measured)
    return path


def test_a_verdict_that_fails_is_worse_and_one_that_is_gone_too(tmp_path):
    wrong = {"status": "failed", "value": 4.5, "reason": "out is off by 2"}
    before = run(tmp_path / "before", checked("sdpa"), checked("eager"), checked("flex", **wrong))
    after = run(tmp_path / "after", checked("sdpa", **wrong), checked("flex"))
    comparison = assay.compare(before, after)
    verdicts = {each.subject: each.verdict for each in comparison}
    assert verdicts == {"sdpa": "worse", "eager": "worse", "flex": "mended"}
    assert not comparison and comparison.answer.word == "FAIL"
    assert "sdpa: error_over_budget_out" in repr(comparison) and "out is off by 2" in repr(
        comparison
    )
    assert "it is no longer checked" in comparison.answer.lines[2]
    assert list(comparison.to_pandas()["verdict"]) == ["worse", "worse", "mended"]
    same = assay.compare(before, before)
    assert same and repr(same) == same.answer.lines[0]
    assert same.to_markdown().strip() == "The same as before: 3 rows."


def test_two_versions_of_a_kernel_are_compared_under_any_names():
    """They were 19 probes each that were "no longer checked"."""

    def first(q, k, v, *, causal, scale):
        return eager.attention(q, k, v, causal=causal, scale=scale)

    def second(q, k, v, *, causal, scale):
        return eager.attention(q, k, v, causal=False, scale=scale)

    before, after = (assay.check(each, probes=["accuracy"], quick=True) for each in (first, second))
    (worse,) = assay.compare(before, after)
    assert (worse.subject, worse.metric, worse.verdict) == ("second", "accuracy", "worse")


def test_runs_without_a_subject_in_common_are_refused(tmp_path):
    before, after = run(tmp_path / "a", checked("sdpa")), run(tmp_path / "b", checked("eager"))
    with pytest.raises(BadInput, match="no subject in common: sdpa before, eager now"):
        assay.compare(before, after)


def test_only_what_differs_is_shown(tmp_path):
    slow = {"status": "failed", "value": 4.5, "reason": "out is off by 2"}
    before = run(tmp_path / "before", checked("sdpa"), checked("flex"))
    after = run(tmp_path / "after", checked("sdpa"), checked("flex", **slow))
    comparison = assay.compare(before, after)
    shown = comparison.to_markdown()
    assert len(comparison.to_pandas()) == 2
    assert "sdpa" not in shown and "ratio" not in shown and "out is off by 2" in shown
    assert "The same as before: 1 row." in shown and "Every row is of ." not in repr(comparison)


def test_times_have_a_ratio_and_are_judged_only_beside_noise(tmp_path):
    before = run(tmp_path / "before", checked("sdpa"), latency("sdpa", [1.0, 1.1, 1.2] * 5))
    after = run(tmp_path / "after", checked("sdpa"), latency("sdpa", [2.0, 2.2, 2.4] * 5))
    comparison = assay.compare(before, after)
    (time,) = (each for each in comparison if each.ratio)
    assert time.low < 2.0 < time.high and time.verdict == "not judged"
    assert not comparison and comparison.answer.word == "INCOMPLETE"
    assert "1 of 1 time not judged: the noise was not measured" in str(comparison.answer)
    noise = {"stage": "noise", "workload": workload(), "subject": "sdpa"}
    records = assay.load_records(after)
    for number in (1, 2):
        records += [
            law_records.record(m, samples=[2.0, 2.0], cell=f"n{number}", **noise)
            for m in (*AA, *PLANTED)
        ]
        records += [
            law_records.record(m, 2, unit="count", cell=f"n{number}", **noise)
            for m in (ROUNDS, SHARE)
        ]
    judged = assay.compare(before, records)
    assert judged.answer.word == "FAIL" and "takes 2.0" in judged.answer.lines[1]
    assert assay.compare(after, records).answer.word == "PASS"


def test_a_failure_that_was_not_there_is_worse_and_one_that_is_gone_is_not(tmp_path):
    """Unsupported before and failed now was the same, a new failure new, both with PASS."""
    wrong = {"status": "failed", "value": 4.5, "reason": "out is off by 2"}
    refused = {"status": "unsupported", "value": None, "reason": "no causal mask"}
    before = run(tmp_path / "before", checked("sdpa", **refused), checked("flex", **wrong))
    after = run(tmp_path / "after", checked("sdpa", **wrong), checked("eager", **wrong))
    comparison = assay.compare(before, after)
    verdicts = {each.subject: each.verdict for each in comparison}
    assert verdicts == {"sdpa": "worse", "flex": "gone", "eager": "worse"}
    assert not comparison and "not checked before: out is off" in str(comparison.answer)


def test_a_time_that_is_gone_is_worse(tmp_path):
    """Out of memory, it was neither compared nor counted."""
    slow = [1.0, 1.1, 1.2] * 5
    oom = {
        "metric": "latency",
        "value": None,
        "status": "oom",
        "reason": "16 GiB asked for, 8 there",
    }
    before = run(tmp_path / "before", checked("sdpa"), latency("sdpa", slow), latency("x", slow))
    after = run(tmp_path / "after", checked("sdpa"), latency("sdpa", [], **oom))
    (worse,) = assay.compare(before, after).worse
    assert (worse.metric, worse.after, worse.reason) == ("latency_ms", "oom", oom["reason"])
    bare = run(tmp_path / "bare", checked("sdpa"))
    assert assay.compare(before, bare).worse[0].reason == "it is no longer timed"


def test_times_of_two_devices_are_not_judged(tmp_path):
    """A run on the CPU and one on the GPU of the same machine had a ratio."""
    measured = (checked("sdpa"), latency("sdpa", [1.0, 1.1, 1.2] * 5))
    before = run(tmp_path / "before", *measured)
    after = run(tmp_path / "after", *measured, devices=["cuda:0"])
    comparison = assay.compare(before, after)
    assert comparison.answer.word == "INCOMPLETE" and not any(each.ratio for each in comparison)
    assert "the devices differ (cpu before, cuda:0 now)" in str(comparison.answer)


def test_an_unchecked_time_is_not_compared(tmp_path):
    runs = [run(tmp_path / name, latency("sdpa", [1.0, 2.0])) for name in ("a", "b")]
    comparison = assay.compare(*runs)
    assert not comparison and comparison.answer.word == "INCOMPLETE"


def test_verdicts_of_functions_are_compared():
    whole = assay.check(eager.attention, cases=4, probes=["accuracy", "batch"])
    assert assay.compare(whole, whole)
    part = assay.check(eager.attention, cases=2, probes=["accuracy"])
    worse = {each.metric: each.reason for each in assay.compare(whole, part).worse}
    assert worse["batch"] == "it is no longer checked" and "fewer cases" in worse["accuracy"]
    with pytest.raises(BadInput, match="a run is compared with a run"):
        assay.compare(whole, assay.load_records(EVIDENCE))
