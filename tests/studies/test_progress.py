"""Progress inside cells: on a terminal, in a log, and for whoever looks from another process."""

import json
import os
import pty
import re
import subprocess
import sys
import threading

import pytest
from study_process import StudyProcess, wait_until

from assay.host import own_fingerprint
from assay.records.schema import Record
from assay.studies import duration, progress
from assay.studies.progress import CellAtWork
from assay.verbs._progress import time_text

STEP = {"ASSAY_TEST_STEP_S": "0.4"}
# The command line, with so little time from one line in a log to the next that a test can wait.
OFTEN = """
import sys
from assay import cli
from assay.verbs import _progress
_progress.LINE_S = 1.0
cli.main()
"""


@pytest.fixture
def study(tmp_path) -> StudyProcess:
    return StudyProcess(folder=tmp_path)


def command(study: StudyProcess, *stages: str) -> list[str]:
    return ["study", *study.run_arguments(*stages), "--out", str(study.results)]


def on_terminal(arguments: list[str], environment: dict[str, str], columns: int) -> str:
    """What a process writes to a terminal, without colours."""
    ours, theirs = pty.openpty()
    screen: list[bytes] = []

    def read() -> None:
        try:
            while text := os.read(ours, 1 << 16):
                screen.append(text)
        except OSError:
            pass  # the other end is closed

    reader = threading.Thread(target=read)
    reader.start()
    size = {"TERM": "xterm", "COLUMNS": str(columns), "LINES": "40"}
    environment = {**environment, **size}
    done = subprocess.run(arguments, stdout=theirs, stderr=theirs, env=environment, timeout=300)
    os.close(theirs)
    reader.join()
    os.close(ours)
    assert done.returncode == 0
    return re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", b"".join(screen).decode())


def test_a_terminal_has_a_live_bar(study):
    arguments = [sys.executable, "-m", "assay", *command(study, "walk")]
    seen = on_terminal(arguments, study.process_environment(STEP), columns=200)
    assert re.search(r"walk.*[12]/3.*1 ok · walk1: batch [1-8] of 8, for \d+ s", seen), seen
    assert re.search(r"ETA \d+ s \(from 1 cell done, \d+\.\d s each and its batches\)", seen), seen
    assert "at work" not in seen


@pytest.mark.slow
def test_a_narrow_terminal_keeps_the_bar_and_cuts_the_rest(study):
    arguments = [sys.executable, "-m", "assay", *command(study, "walk")]
    seen = on_terminal(arguments, study.process_environment(STEP), columns=60)
    assert re.search(r"walk \S{20} 1/3 0:\d\d:\d\d ETA \d+ s .*…", seen), seen


@pytest.mark.slow
def test_a_log_has_lines_now_and_then_and_no_control_characters(study):
    done = subprocess.run(
        [sys.executable, "-c", OFTEN, *command(study, "walk")],
        env=study.process_environment(STEP),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0
    assert not set(done.stderr) & {"\x1b", "\r", "\b"}
    lines = [line for line in done.stderr.splitlines() if line.startswith("  at work  ")]
    assert 3 <= len(lines) <= 3 * 20
    assert re.search(r"walk0: batch \d of 8, for \d+ s, \d+ s left; ETA —", "\n".join(lines))
    assert re.search(r"walk2: batch \d of 8, for \d+ s, \d+ s left; ETA \d+ s", "\n".join(lines))


def test_short_cells_have_one_line_each_in_a_log(study):
    assert study.run("walk") == 0
    assert "at work" not in study.stderr
    assert len(study.stderr.splitlines()) == 2 + 3


def status(study: StudyProcess, *more: str) -> str:
    arguments = ["study", "status", "--trust-plugins", "--out", str(study.results), *more]
    return subprocess.run(
        [sys.executable, "-m", "assay", *arguments],
        env={**study.process_environment(), "COLUMNS": "160"},  # no line is broken
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.slow
def test_status_shows_the_cell_at_work_and_the_outcomes_so_far(study):
    mishap = {"ASSAY_TEST_MISHAP": "walk1:4:sleep"}
    process = study.start(*study.run_arguments("walk"), **mishap)
    try:
        study.wait_for("asleep")
        text = status(study)
        assert re.search(r"walk1 +at work: batch 3 of 8", text), text
        assert re.search(r"walk2 +to do: missing", text), text
        assert "Running" in text and "go on with" not in text
        row = r"walk +1 of 3 +1 ok +walk1: batch 3 of 8, for .* left +\d.* \(from 1 cell done"
        assert re.search(row, text), text
        states = [json.loads(line)["state"] for line in status(study, "--json").splitlines()]
        assert states == ["done", "at work: batch 3 of 8", "to do: missing"]
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not study.run_folder.is_held(), "the lock's end")
    text = status(study)
    assert re.search(r"walk1 +to do: unfinished, 3 batches are kept", text), text
    assert "Not running" in text and "at work:" not in text
    assert f"go on with: assay study resume {study.run_folder.path}" in text.replace("\n", "")
    process = study.start("resume", "--trust-plugins", **mishap)
    try:
        wait_until(lambda: study.diary().count("asleep") == 2, "the next attempt")
        assert re.search(r"walk1 +at work: after batch 3", status(study))
    finally:
        process.kill()
        process.wait()


def test_the_subject_at_work_is_shown_with_its_place(study):
    process = study.start(*study.run_arguments("lingers"))
    try:
        wait_until(lambda: "second" in study.diary(), "the second subject")
        folder = study.run_folder.stage("lingers")
        wait_until(lambda: any(cell.place for cell in progress.at_work(folder)), "its line")
        [cell] = progress.at_work(folder)
        assert cell.name == "both" and cell.place == "second (2 of 2), presence, case 7"
        assert cell.remaining_s is None
    finally:
        process.kill()
        process.wait()


def test_what_is_left_is_estimated_from_what_is_known():
    def cell(elapsed_s, remaining_s=None):
        return CellAtWork(name="c", elapsed_s=elapsed_s, place="", remaining_s=remaining_s)

    assert progress.estimate([], [cell(5)], 0).seconds is None
    assert progress.estimate([], [cell(5, 20)], 1).seconds is None
    alone = progress.estimate([], [cell(5, 20)], 0)
    assert (alone.seconds, alone.basis) == (20, "its batches")
    mixed = progress.estimate([8, 12], [cell(4)], 3)
    assert (mixed.seconds, mixed.basis) == (36, "2 cells done, 10.0 s each")
    assert progress.estimate([10], [cell(4), cell(90)], 2).seconds == (6 + 0 + 20) / 2
    both = progress.estimate([10], [cell(4, 5)], 1)
    assert (both.seconds, both.basis) == (15, "1 cell done, 10.0 s each and its batches")
    assert progress.estimate([10], [], 0).seconds is None
    before = progress.estimate([], [cell(5)], 1, {"c": 30.0, "d": 10.0})
    assert (before.seconds, before.basis) == (25 + 20, "earlier runs on this host")
    assert progress.estimate([8], [cell(5)], 0, {"c": 30.0}).seconds == 3
    assert progress.estimate([], [cell(40)], 0, {"c": 30.0}).seconds is None


def test_earlier_runs_on_this_host_say_how_long_a_cell_takes(study):
    """In 67 checks the ETA never had a value: each was one cell, and none was done before it."""
    assert study.run("early_a") == 0
    took = {name: end.value for name, end in study.ends("early_a").items()}
    assert duration.cells_before(study.results, own_fingerprint()) == {"early_a": took}
    assert duration.cells_before(study.results, "another") == {}


def test_a_cell_that_did_not_run_says_nothing_of_the_time_others_take():
    def end(value):
        return Record(
            metric="cell_seconds", value=value, unit="s", schema=1, run="r", session=1, stage="s",
            cell="c", fingerprint="f", host="h", time="t",
        )  # fmt: skip

    assert progress.durations([end(3.0), end(0.0)]) == [3.0]


def test_times_are_said_in_the_unit_people_use():
    given = (0.4, 99, 150, 3000, 9000, 90_000)
    texts = ["0 s", "99 s", "2.5 min", "50 min", "2.5 h", "25 h"]
    assert [time_text(seconds) for seconds in given] == texts
