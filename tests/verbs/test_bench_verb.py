"""`assay bench` from the command line: noise, and the gate for regressions."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from command_line import assay

from assay.host import CHECKOUT
from assay.studies import kconfig, workload_cells
from assay.studies.stages import suite

TINY = ["--device", "cpu", "--workload", "b1_h2_s64_d16_causal_float32"]
FEW = ["--set", "NOISE_PROCESSES=2", "--set", "ROUNDS=6", "--probe", "latency,accuracy"]


@pytest.fixture(scope="module")
def benched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benched")
    arguments = ["sdpa", "--vs", "eager", "--set", "STAGES=bench", *FEW, *TINY]
    done = assay("bench", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def first(folder):
    return min((folder / "results/bench").iterdir())


def test_what_it_writes(benched):
    run = first(benched)
    for kind in ("performance", "correctness"):
        results = json.loads((run / f"{kind}_results.json").read_text())
        assert {row["subject"] for row in results["results"]} >= {"eager", "sdpa"}, kind
    assert "sdpa" in (run / "summary_report.txt").read_text()


def test_an_implementation_against_itself(benched):
    arguments = ["sdpa", "--aa", "--comparisons", "10", *FEW, *TINY]
    done = assay("bench", *arguments, cwd=benched)
    assert done.returncode == 0 and "false alarms" in " ".join(done.stdout.split())


def test_probes_of_cost_alone_leave_the_check_before_noise():
    study = kconfig.load(None, ["STAGES=check,noise", "PROBES=latency", "IMPLEMENTATIONS=sdpa"])
    cell, *_ = workload_cells.cells(study, "check")
    assert cell.probes == ("accuracy",)


@pytest.mark.slow
def test_the_gate_lets_through_what_is_not_slower(benched):
    run = first(benched)
    loose = ["--set", "NOISE_PROCESSES=3", "--set", "NOISE_COMPARISONS=10"]
    done = assay("bench", "--against", run, "--probe", "latency", *loose, *TINY, cwd=benched)
    assert "Since " in done.stdout and done.returncode in (0, 1)
    rows = [line for line in done.stdout.splitlines() if line.strip().startswith("latency_ms")]
    slower = [row for row in rows if row.strip().endswith("slower") and "not slower" not in row]
    assert rows and (done.returncode == 1) == bool(slower)
    lines = done.stdout.splitlines()
    (answer,) = [line for line in lines if f"than in {run.name}" in line and "time" in line]
    assert answer.startswith("FAIL  " if slower else "PASS  none of ")
    assert lines.index(answer) < next(i for i, line in enumerate(lines) if "Since " in line)


def test_a_run_that_timed_nothing_is_no_measure(benched):
    assert assay("bench", "--against", benched / "nothing", cwd=benched).returncode == 2


def test_probes_of_cost_alone_leave_the_check_whole():
    """`--probe latency` timed a kernel that no case of the suite had seen."""
    timed = kconfig.load(None, ["STAGES=host,suite,bench", "PROBES=latency"])
    (cell,) = suite.cells(replace(timed, implementations=("eager",)))
    assert {"accuracy", "gradients", "shapes", "causality"} <= set(cell.probes)
    named = replace(timed, implementations=("eager",), probes=("accuracy", "latency"))
    assert suite.cells(named)[0].probes == ("accuracy",)


def test_what_is_timed_in_bfloat16_is_checked_in_it():
    """A kernel for half precision alone had no case, and was timed as if it had passed."""
    half = [
        "STAGES=suite,bench",
        "WORKLOADS=b1_h8_s128_bf16,b1_h8_s64_bf16",
        "IMPLEMENTATIONS=eager",
    ]
    (cell,) = suite.cells(kconfig.load(None, half))
    assert cell.options["dtypes"] == ("bfloat16",)
    (cell,) = suite.cells(kconfig.load(None, half[2:]))
    assert cell.options["dtypes"] == ("float32",)


@pytest.mark.slow
def test_a_kernel_that_is_right_on_the_timed_workload_alone_has_no_speed(tmp_path):
    file = tmp_path / "top_left.py"
    file.write_text((CHECKOUT / "docs/examples/top_left.py").read_text())
    given = ["--vs", "sdpa", "--workload", "b1_h2_s64_d32_causal", "--probe", "latency"]
    done = assay("bench", "top_left.py", *given, cwd=tmp_path)
    assert done.returncode == 1 and "FAIL  top_left: the causal mask" in done.stdout
    assert "faster" not in done.stdout.split("Speed")[0] and "refused" in done.stdout
