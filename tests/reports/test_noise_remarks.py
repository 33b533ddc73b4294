"""A busy machine and impossible times stand above the tables; what was reused, in the facts."""

from build_run import append, begin, end, latency, measured

from assay.records.schema import MACHINE_LOAD, REUSED
from assay.reports.contents import read_contents
from assay.reports.report import compose


def _busy(load: float):
    reason = f"the machine was busy: load {load} on 2 cores"
    return measured(MACHINE_LOAD, load, "processes", "", workload=None, reason=reason)


def test_the_busiest_cell_is_told_once_and_is_no_result(tmp_path):
    run = begin(tmp_path / "run")
    append(run, "bench", "k128", latency("sdpa", [1.0] * 6), _busy(4.0))
    append(run, "bench", "k256", latency("sdpa", [3.0] * 6, 256), _busy(7.9))
    end(run, "bench")
    report = compose(read_contents(run))
    remarks = [line for line in report.problems if "busy" in line]
    assert remarks == ["the machine was busy: load 7.9 on 2 cores"]
    assert MACHINE_LOAD not in str(report.results)


def test_forward_slower_than_both_passes_is_told_by_subject(tmp_path):
    run = begin(tmp_path / "run")
    append(
        run,
        "bench",
        "k128",
        latency("sdpa", [1.0] * 6),
        measured("training_ms", 3.0, "ms", "sdpa", samples=[3.0] * 6),
        latency("mine", [4.0] * 6),
        measured("training_ms", 3.0, "ms", "mine", samples=[3.0] * 6),
    )
    end(run, "bench")
    problems = compose(read_contents(run)).problems
    (remark,) = (line for line in problems if "cannot be: noise" in line)
    assert remark.startswith("mine: forward alone took longer") and "k128" in remark


def test_what_was_reused_is_a_fact(tmp_path):
    run = begin(tmp_path / "run")
    about = {"workload": None, "reason": "measured at noon by run r1 in 5.0 s"}
    peak = measured("matmul_rate", 1.0, "TFLOP/s", "cpu", workload=None)
    append(run, "host", "peaks/cpu", peak, measured(REUSED, None, "", "", **about))
    end(run, "host")
    report = compose(read_contents(run))
    assert "peaks/cpu: measured at noon by run r1 in 5.0 s" in report.facts
    assert "noon" not in str(report.results)
