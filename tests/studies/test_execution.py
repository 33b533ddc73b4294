"""What becomes of cells that end well or badly, and of the stages they are in."""

import os
import re
import subprocess
import sys

import pytest
from study_process import StudyProcess

from assay.devices import memory_bytes
from assay.records.schema import CELL_SECONDS

pytestmark = pytest.mark.early  # what they share takes long to set up

TIMEOUT_S = 20  # in which a cell also starts on two cores with eight other processes
OUTCOMES = {
    "fine_first": ("ok", None),
    "aborts": ("failed", "the process was ended by SIGABRT"),
    "is_killed": ("failed", "the process was ended by SIGKILL"),
    "exits_with_3": ("failed", "the process ended with exit code 3"),
    "exits_with_0": ("failed", "the process ended with exit code 0 before the cell was done"),
    "raises": (
        "failed",
        "the process ended with exit code 1; its last line: ValueError: what went wrong",
    ),
    "hangs": ("timeout", f"ran longer than {TIMEOUT_S} s (CELL_TIMEOUT_S)"),
    "gets_a_real_time_signal": ("failed", "the process was ended by signal 40"),
    "yields_a_dict": ("ok", None),
    "yields_half_a_dict": ("failed", r".*required field `value`"),
    "yields_none": ("failed", r".*TypeError: .* yielded a NoneType"),
    "yields_a_nan": ("failed", r".*ValueError: answer of '' is not finite"),
    "yields_nothing": ("failed", "the cell ended without a measurement"),
    "fine_last": ("ok", None),
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> StudyProcess:
    """A study of all the ways to end, and of a stage after it that has no trouble."""
    study = StudyProcess(folder=tmp_path_factory.mktemp("endings"))
    assert study.run("endings", "steady", CELL_TIMEOUT_S=TIMEOUT_S) == 1
    return study


@pytest.fixture
def study(tmp_path) -> StudyProcess:
    return StudyProcess(folder=tmp_path)


def test_every_cell_has_its_outcome_in_order(ended):
    cells = [record.cell for record in ended.records("endings") if record.metric == CELL_SECONDS]
    assert cells == list(OUTCOMES)


@pytest.mark.parametrize("cell", OUTCOMES)
def test_the_outcome_of_a_cell_has_its_reason(ended, cell):
    status, reason = OUTCOMES[cell]
    end = ended.ends("endings")[cell]
    assert end.status == status
    if reason is None:
        assert end.reason is None
    else:
        plain = reason if reason.startswith(".*") else re.escape(reason)
        assert re.match(plain, end.reason), end.reason
    values = [r.value for r in ended.records("endings") if r.cell == cell and r.metric == "answer"]
    assert values == ([42.0] if status == "ok" else []), "a half cell must leave no value"


def test_a_failed_stage_is_done_and_says_so(ended):
    done = ended.done("endings")
    failed = [name for name, (status, _) in OUTCOMES.items() if status == "failed"]
    assert done.status == "failed"
    assert done.reason == f"{len(failed)} of {len(OUTCOMES)} cells failed, the first is aborts"
    assert done.counts == {"ok": 3, "failed": len(failed), "timeout": 1}
    assert set(done.cells) == set(OUTCOMES)


def test_the_stage_after_a_failed_one_still_runs(ended):
    assert {end.status for end in ended.ends("steady").values()} == {"ok"}
    assert ended.done("steady").status == "ok"


def test_done_is_written_last(ended):
    folder = ended.run_folder
    for stage in ("endings", "steady"):
        done = folder.done_file(stage).stat().st_mtime_ns
        others = [file for file in folder.stage(stage).iterdir() if file.name != "DONE"]
        assert {"metrics.jsonl", "stdout.log", "stderr.log"} == {file.name for file in others}
        assert all(file.stat().st_mtime_ns <= done for file in others)


def test_what_cells_print_is_kept(ended):
    folder = ended.run_folder.stage("endings")
    out, err = (folder / "stdout.log").read_text(), (folder / "stderr.log").read_text()
    assert "== fine_first \nprinted to stdout\n== aborts" in out
    assert "== fine_first \nprinted to stderr\n== aborts" in err
    assert "Traceback" in err and "what went wrong" in err


def test_what_a_cell_said_before_it_crashed_is_kept(ended):
    """Python holds back what is printed to a file, and a crash threw the last of it away."""
    out = (ended.run_folder.stage("endings") / "stdout.log").read_text()
    assert "== aborts \nsaid before the abort\n" in out


def test_the_subject_that_crashes_is_blamed_and_the_others_run_alone(study):
    assert study.run("turns") == 1
    by_cell = {}
    for record in study.records("turns"):
        if record.metric != CELL_SECONDS:
            by_cell.setdefault(record.cell, {}).setdefault(record.subject, []).append(record)

    by_subject = by_cell["one crashes"]
    assert set(by_subject) == {"a", "b", "c", "crashes", "refuses"}
    for subject in ("a", "b", "c"):
        assert [r.metric for r in by_subject[subject]] == ["half", "turn"]
        assert by_subject[subject][0].value == 1.0, "it did not run alone"
        assert all(record.alone for record in by_subject[subject]), "its samples would be paired"
    assert [r.status for r in by_subject["crashes"]] == ["failed"]
    assert "SIGABRT" in by_subject["crashes"][0].reason
    assert by_subject["refuses"][-1].status == "oom"

    two = by_cell["two crash"]
    assert [r.status for r in two["crashes"] + two["crashes too"]] == ["failed", "failed"]
    assert [r.status for r in two["a"] + two["b"]] == ["ok"] * 4

    whole = by_cell["before any turn"]
    assert list(whole) == [""] and "not even begun" in whole[""][0].reason


def test_a_subject_that_crashes_alone_before_its_turn_is_blamed_by_name(study):
    """The cell was blamed instead, and the subject had no record at all."""
    assert study.run("turns") == 1
    records = [r for r in study.records("turns") if r.cell == "before its turn, alone"]
    blamed = {r.subject: r.status for r in records if r.metric not in (CELL_SECONDS, "half")}
    assert blamed == {"a": "ok", "crashes": "failed", "b": "failed"}


def test_memory_beyond_the_limit_is_an_outcome(study):
    worker_bytes = 200 << 20  # well above what a cell that does nothing takes
    percent = max(1, -(-worker_bytes * 100 // memory_bytes()))
    limit_bytes = memory_bytes() * percent // 100
    if limit_bytes > 4 << 30:
        pytest.skip(f"one percent of this machine's memory is {limit_bytes >> 30} GiB to fill")
    assert study.run("hunger", CELL_MEMORY_PERCENT=percent, CELL_TIMEOUT_S=60) == 0
    ends = study.ends("hunger")
    assert ends["hungry"].status == "oom"
    assert f"used more than {limit_bytes / 2**30:.1f} GiB" in ends["hungry"].reason
    assert ends["frugal"].status == "ok"


def test_stages_run_after_those_they_name(study):
    assert study.run("early_a", "early_b", "early_c") == 0
    times = {stage: study.ends(stage)["only"].time for stage in ("early_a", "early_b", "early_c")}
    assert sorted(times, key=times.__getitem__) == ["early_c", "early_b", "early_a"]
    assert all(study.done(stage).status == "ok" for stage in times)


def test_stages_that_wait_for_each_other_are_refused(study):
    assert study.run("circle_a", "circle_b") == 2
    assert re.search(r"cannot be ordered: circle_(.) after circle_. after circle_\1", study.stderr)


def test_two_cells_of_one_name_are_refused(study):
    assert study.run("namesakes") == 2
    assert "stage namesakes gives one name to several cells" in study.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="a process-id namespace of its own needs root")
def test_cells_run_where_assay_is_the_first_process(study):
    """In a container assay may be process 1; cells took that for the death of their parent."""
    inside = [sys.executable, "-m", "assay", "study", *study.run_arguments("steady")]
    command = ["unshare", "--pid", "--fork", "--mount-proc", *inside, "--out", str(study.results)]
    done = subprocess.run(command, cwd=study.folder, env=study.process_environment(), timeout=300)
    assert done.returncode == 0
    assert {end.status for end in study.ends("steady").values()} == {"ok"}
