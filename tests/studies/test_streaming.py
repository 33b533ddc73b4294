"""Cells that append batches while they run, and the attempts that continue them."""

import json
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from study_process import PLUGINS, StudyProcess, is_alive, wait_until
from walk_records import BATCH_RECORDS, BATCHES, CELLS, STAGE, check_finished, check_whole, expected

from assay.records import run as runs
from assay.records.query import Records
from assay.records.schema import CELL_PROGRESS, CELL_SECONDS, Measurement, Stamp
from assay.reports.build import build
from assay.studies.cell import Batch, Cell, WorkerRequest
from assay.studies.stream import BatchStream

SLEEPS = {"ASSAY_TEST_MISHAP": "walk1:4:sleep"}
ABORTS = {"ASSAY_TEST_MISHAP": "walk1:4:abort"}


@pytest.fixture
def study(tmp_path) -> StudyProcess:
    """A study whose plugins may be edited."""
    unread = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PLUGINS, tmp_path / "plugins", ignore=unread)
    return StudyProcess(folder=tmp_path, plugins=tmp_path / "plugins")


@contextmanager
def asleep(study: StudyProcess):
    """A study that has streamed three batches of its second cell and does no more."""
    process = study.start(*study.run_arguments(STAGE), **SLEEPS)
    try:
        study.wait_for("asleep")
        assert batches(study)["walk1"] == 3
        yield process
    finally:
        process.kill()
        process.wait()
        wait_until(lambda: not any(map(is_alive, study.processes())), "the cell's end")


def batches(study: StudyProcess) -> dict[str, int]:
    return check_whole(study.records(STAGE))


def made(study: StudyProcess, cell: str) -> list[int]:
    """The numbers of the batches of a cell that were made, in order."""
    return [int(name.partition(":")[2]) for name in study.diary() if name.startswith(f"{cell}:")]


def attempts(study: StudyProcess, cell: str) -> list[int]:
    return sorted({record.attempt for record in study.records(STAGE) if record.cell == cell})


def test_batches_come_in_order_and_the_end_as_ever(study):
    assert study.run(STAGE) == 0
    check_finished(study)
    records = [record for record in study.records(STAGE) if record.cell == "walk2"]
    progress = [record for record in records if record.metric == CELL_PROGRESS]
    assert [(record.value, record.total) for record in progress] == [
        (number, BATCHES) for number in range(1, BATCHES + 1)
    ]
    assert {record.closes for record in progress} == {BATCH_RECORDS}
    assert [record.metric for record in records[-2:]] == ["end", CELL_SECONDS]
    assert records[-1].closes == 2
    folder = study.run_folder.cell(STAGE, "walk2")
    assert json.loads((folder / "state.json").read_bytes())[0] == BATCHES, "it stays after the end"
    assert study.resume() == 0
    assert len(study.diary()) == len(CELLS) * (BATCHES + 1)


def test_a_crash_keeps_the_batches_and_the_next_attempt_continues(study):
    assert study.run(STAGE, env=ABORTS) == 1
    assert batches(study) == {"walk0": BATCHES, "walk1": 3, "walk2": BATCHES}
    end = study.ends(STAGE)["walk1"]
    assert end.status == "failed" and "SIGABRT" in end.reason
    assert study.resume(ASSAY_TEST_MISHAP="walk1:6:abort") == 1
    assert batches(study)["walk1"] == 5
    assert study.resume() == 0
    check_finished(study)
    assert made(study, "walk1") == list(range(1, BATCHES + 1)), "a batch was made twice"
    assert attempts(study, "walk1") == [1, 2, 3]
    carried = [r for r in study.records(STAGE) if r.cell == "walk1" and r.attempt == 3]
    assert carried[5 * BATCH_RECORDS - 1].closes == 5 * BATCH_RECORDS, "carried over in one batch"
    first = [r for r in study.records(STAGE) if r.cell == "walk1" and r.attempt == 1]
    assert carried[0].time == first[0].time, "when it was measured is kept"


def test_a_killed_study_continues_under_the_same_number(study):
    with asleep(study) as process:
        process.kill()
    assert batches(study)["walk1"] == 3
    assert study.resume() == 0
    check_finished(study)
    assert made(study, "walk1") == list(range(1, BATCHES + 1))
    assert attempts(study, "walk1") == [1]
    sessions = [record.session for record in study.records(STAGE) if record.cell == "walk1"]
    assert sessions == [1] * 3 * BATCH_RECORDS + [2] * (5 * BATCH_RECORDS + 2)


@pytest.mark.slow
def test_a_polite_request_keeps_the_batches_too(study):
    with asleep(study) as process:
        process.send_signal(signal.SIGTERM)
        study.finish(process)
    assert study.resume() == 0
    check_finished(study)
    assert made(study, "walk1") == list(range(1, BATCHES + 1))


@pytest.mark.slow
def test_batches_that_are_made_again_are_dropped(study):
    with asleep(study):
        pass
    (study.run_folder.cell(STAGE, "walk1") / "state.json").unlink()
    assert study.resume() == 0
    check_finished(study)
    assert made(study, "walk1") == [1, 2, 3, *range(1, BATCHES + 1)]
    assert attempts(study, "walk1") == [1]


@pytest.mark.slow
def test_a_removed_folder_begins_the_cell_afresh(study):
    with asleep(study):
        pass
    shutil.rmtree(study.run_folder.cell(STAGE, "walk1"))
    assert study.resume() == 0
    check_finished(study)
    assert attempts(study, "walk1") == [1, 2]


@pytest.mark.slow
def test_changed_code_begins_afresh_with_an_empty_folder(study):
    with asleep(study):
        pass
    folder = study.run_folder.cell(STAGE, "walk1")
    (folder / "old").touch()
    file = study.plugins / "stages" / "walk.py"
    file.write_text(file.read_text() + "\nCHANGED = True\n")
    assert study.resume() == 0
    check_finished(study)
    assert attempts(study, "walk1") == [1, 2]
    assert made(study, "walk1") == [1, 2, 3, *range(1, BATCHES + 1)]
    assert not (folder / "old").exists()


@pytest.mark.slow
def test_an_attempt_given_up_for_changed_code_does_not_pass_for_the_old_result(study):
    """Attempt 2 of changed code was killed in the middle and the change taken back: the end of
    attempt 1 is of this very code, yet what is shown is attempt 2."""
    assert study.run(STAGE) == 0
    file = study.plugins / "stages" / "walk.py"
    text = file.read_text()
    file.write_text(text + "\nCHANGED = True\n")
    process = study.start("resume", "--trust-plugins", **SLEEPS)
    study.wait_for("asleep")
    assert attempts(study, "walk1") == [1, 2] and batches(study)["walk1"] == 3
    process.kill()
    process.wait()
    file.write_text(text)
    assert study.resume() == 0
    check_finished(study)
    assert attempts(study, "walk1") == [1, 2, 3]


@pytest.mark.slow
def test_a_failure_in_a_batch_is_not_carried_over(study):
    assert study.run(STAGE, env={"ASSAY_TEST_MISHAP": "walk1:4:fail"}) == 1
    end = study.ends(STAGE)["walk1"]
    assert (end.status, end.reason) == ("failed", "ice")
    assert study.resume() == 0
    check_finished(study)
    assert made(study, "walk1") == [*range(1, BATCHES + 1)] * 2


def test_a_report_in_the_middle_of_a_cell(study):
    with asleep(study):
        built = build(study.run_folder, planned=[STAGE])
        assert "unfinished: walk" in built.report.verdict
        [stage] = built.report.stages.entries
        assert stage[2].text == "1 unfinished, 1 ok"
        shown = [
            entry.text for table in built.report.results for row in table.entries for entry in row
        ]
        assert CELL_PROGRESS not in shown
        assert "cell_progress" not in built.markdown.read_text()
        loaded = [r for r in runs.load_records(study.run_folder.path) if r.cell == "walk1"]
        assert [(r.metric, r.value) for r in loaded] == expected("walk1")[: 3 * BATCH_RECORDS]
        pytest.importorskip("duckdb")
        query = "SELECT cell, max(value), max(total) FROM records WHERE metric = 'cell_progress'"
        rows = Records(study.results).query(f"{query} GROUP BY cell ORDER BY cell").rows
        assert rows == [("walk0", 8.0, 8), ("walk1", 3.0, 8)]


def test_two_cells_may_stream_side_by_side(study):
    assert study.run(STAGE, ENGINE="pairs") == 0
    check_finished(study)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("STREAMS = True", "STREAMS = 0 > 1", "only a stage with STREAMS = True"),
        ("yield Batch(done,", "yield Batch(done + 1,", "batch 2 comes after 0"),
        ("yield Batch(done, BATCHES,", "yield Batch(done, 0,", "batch 1 of 0"),
        ("BATCHES, measured)", "BATCHES, [42])", "batch 1 holds a int"),
    ],
)
def test_what_is_no_batch_fails_in_words(study, before, after, reason):
    file = study.plugins / "stages" / "walk.py"
    text = file.read_text().replace("cell.folder /", "Path(os.environ['TMPDIR']) / cell.name /")
    file.write_text("from pathlib import Path\n" + text.replace(before, after))
    assert study.run(STAGE) == 1
    assert reason in study.ends(STAGE)["walk0"].reason


def late_stream(study: StudyProcess) -> BatchStream:
    """Stream of a cell that the finished study does not know, as its first session made it."""
    stamp = Stamp(
        run=study.run_json.run, session=1, stage=STAGE, cell="late", fingerprint="f", attempt=1
    )
    request = WorkerRequest(
        stage=STAGE,
        cell=Cell(name="late"),
        run_folder=study.run_folder.path,
        stamp=stamp,
        host="h",
    )
    return BatchStream(request)


def test_a_process_of_an_earlier_start_cannot_append(study):
    """It dies with its study, but not in the same instant."""
    study.run(STAGE)
    late = late_stream(study)
    late.append(Batch(1, None, [Measurement(metric="late", value=1.0, unit="")]))
    before = study.run_folder.log(STAGE).read_bytes()
    assert study.resume() == 0
    with pytest.raises(SystemExit, match="started again"):
        late.append(Batch(2, None))
    assert study.run_folder.log(STAGE).read_bytes() == before


def test_a_number_that_cannot_be_true_is_refused_in_a_batch_too(study):
    study.run(STAGE)
    frozen, sound = (
        Measurement(metric="latency_ms", value=samples[0], unit="ms", subject=name, samples=samples)
        for name, samples in (
            ("frozen", [0.123456] * 20),
            ("sound", [0.1 + i / 97 for i in range(20)]),
        )
    )
    late_stream(study).append(Batch(1, None, [frozen, sound]))
    late = {r.subject: r for r in study.records(STAGE) if r.metric == "latency_ms"}
    assert late["frozen"].status == "refused" and late["frozen"].value is None
    assert "not believed" in late["frozen"].reason
    assert late["sound"].value == sound.value


HOLDER = """
import sys, time
from pathlib import Path
from assay.studies.stream import alone_in
with alone_in(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_cell_waits_for_the_process_that_is_still_in_its_folder(study):
    with asleep(study):
        pass
    folder = study.run_folder.cell(STAGE, "walk1")
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=study.process_environment()
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        began = len(study.diary())
        process = study.start("resume", "--trust-plugins")
        wait_until(lambda: len(study.run_json.sessions) == 2, "the second start")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3)
        assert study.diary()[began:] == []
        holder.kill()
    assert study.finish(process) == 0
    check_finished(study)
