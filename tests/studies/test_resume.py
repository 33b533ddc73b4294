"""Resuming does what is missing, failed, changed or newly possible, and nothing else."""

import shutil

import msgspec
import pytest
from new_process import environment
from study_process import PLUGINS, StudyProcess

from assay import host
from assay.records import run as runs
from assay.records.log import Log
from assay.records.run import RunFolder
from assay.studies import session


@pytest.fixture
def study(tmp_path) -> StudyProcess:
    """A study whose plugins may be edited."""
    unread = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PLUGINS, tmp_path / "plugins", ignore=unread)
    return StudyProcess(folder=tmp_path, plugins=tmp_path / "plugins")


def edit(study: StudyProcess, name: str, before: str, after: str) -> None:
    """Change a stage's file. The new text has another length: Python tells by length and second."""
    file = study.plugins / "stages" / name
    text = file.read_text()
    assert before in text and len(before) != len(after)
    file.write_text(text.replace(before, after))


def attempts(study: StudyProcess, stage: str) -> dict[str, int]:
    return {cell: end.attempt for cell, end in study.ends(stage).items()}


def test_nothing_runs_where_all_is_done(study):
    assert study.run("steady", "nap") == 0
    stages = ("steady", "nap")
    before = [study.run_folder.log(stage).read_bytes() for stage in stages]
    done = [study.run_folder.done_file(stage).read_bytes() for stage in stages]
    began = study.diary()
    assert sorted(began) == ["after", "before", "first", "nap", "second"]
    assert study.resume() == 0
    assert study.diary() == began
    assert [study.run_folder.log(stage).read_bytes() for stage in stages] == before
    assert [study.run_folder.done_file(stage).read_bytes() for stage in stages] == done


def test_each_start_is_a_session_and_keeps_those_before(study):
    study.run("steady")
    first = study.run_json.sessions
    assert [s.number for s in first] == [1]
    assert first[0].command[:3] == ["assay", "study", "run"]
    study.resume()
    study.resume()
    sessions = study.run_json.sessions
    assert [s.number for s in sessions] == [1, 2, 3]
    assert sessions[0] == first[0]
    assert sessions[2].command[:3] == ["assay", "study", "resume"]
    assert sessions[0].started < sessions[1].started < sessions[2].started
    assert study.run_json.config["STAGES"] == '"steady"'


@pytest.mark.slow
def test_a_session_begun_meanwhile_is_kept(study, monkeypatch):
    """run.json was read before the run was held, so a start between the two was overwritten."""
    study.run("steady")
    hold = RunFolder.held

    def another_start_comes_first(folder):
        if len(runs.open_run(folder.path)[1].sessions) == 1:
            assert study.resume() == 0
        return hold(folder)

    monkeypatch.setattr(RunFolder, "held", another_start_comes_first)
    asked = session.study_of(study.run_json, trust=True)
    with session.resumed(study.run_folder.path, asked, host.inspect()) as setting:
        assert setting.session == 3
    assert [s.number for s in study.run_json.sessions] == [1, 2, 3]


def test_the_failed_is_run_again(study):
    assert study.run("nap", env={"ASSAY_TEST_NAP": "fail"}) == 1
    assert study.done("nap").status == "failed"
    assert study.resume(ASSAY_TEST_NAP="fail") == 1
    assert study.done("nap").session == 2
    assert study.resume() == 0
    assert study.diary() == ["before", "nap", "after", "nap", "nap"]
    assert attempts(study, "nap") == {"before": 1, "nap": 3, "after": 1}
    assert study.done("nap").status == "ok"
    current = [r for r in runs.load_records(study.run_folder.path) if r.cell == "nap"]
    assert {(r.status, r.attempt, r.session) for r in current} == {("ok", 3, 3)}


def test_the_missing_is_run(study):
    study.run("many")
    log = study.run_folder.log("many")
    lines = log.read_bytes().splitlines(keepends=True)
    assert len(lines) == 30 * 6
    log.write_bytes(b"".join(lines[: 27 * 6]))
    began = len(study.diary())
    assert study.resume() == 0
    assert study.diary()[began:] == ["cell27", "cell28", "cell29"]
    assert set(attempts(study, "many").values()) == {1}


def test_what_a_killed_start_left_behind_is_set_aside_and_reported(study):
    study.run("steady")
    log = study.run_folder.log("steady")
    torn = log.read_bytes()[:-1]
    log.write_bytes(torn)
    assert study.resume() == 0
    assert f"bytes of an unfinished cell set aside: {log}.torn" in study.stderr
    assert study.diary() == ["first", "second", "second"]
    assert attempts(study, "steady") == {"first": 1, "second": 1}


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("steady.py", 'metric="number", value=NUMBER', 'metric="number", value=NUMBER + 1'),
        ("_number.py", "NUMBER = 1.0", "NUMBER = 2.000"),
    ],
    ids=["the stage's own file", "a file it imports"],
)
@pytest.mark.sampled
def test_the_changed_is_run_again_with_the_new_code(study, file, before, after):
    study.run("steady", "nap")
    edit(study, file, before, after)
    assert study.resume() == 0
    assert study.diary()[5:] == ["first", "second"]
    assert attempts(study, "steady") == {"first": 2, "second": 2}
    assert attempts(study, "nap") == {"before": 1, "nap": 1, "after": 1}
    current = runs.load_records(study.run_folder.path)
    assert [r.value for r in current if r.metric == "number"] == [2.0, 2.0]
    assert len({r.fingerprint for r in study.records("steady") if r.cell == "first"}) == 2


@pytest.mark.slow
def test_moving_the_plugins_changes_no_cell(study):
    study.run("steady")
    moved = study.folder / "moved"
    study.plugins.rename(moved)
    folder, run = runs.open_run(study.run_folder.path)
    runs.save(folder, msgspec.structs.replace(run, plugins=[str(moved)]))
    assert study.resume() == 0
    assert study.diary() == ["first", "second"]


@pytest.mark.slow
def test_a_cell_that_is_no_longer_asked_for_is_out_of_the_stages_result(study):
    """DONE went on to say that the stage had failed, for a cell that was no longer in it."""
    edit(study, "steady.py", "    begin(cell.name)", "    assert cell.name == 'first'")
    assert study.run("steady") == 1
    assert study.done("steady").status == "failed"
    edit(study, "steady.py", 'NAMES = ("first", "second")', 'NAMES = ("first",)')
    assert study.resume() == 0
    assert study.done("steady").cells.keys() == {"first"}
    assert study.done("steady").status == "ok"


def test_a_stage_restates_its_result_when_only_the_plan_changed(study):
    study.run("steady")
    done = study.done("steady")
    renamed = msgspec.structs.replace(done, cells={**done.cells, "gone": "f"}, status="failed")
    runs.write_done(study.run_folder, "steady", renamed)
    assert study.resume() == 0
    assert study.diary() == ["first", "second"]
    assert study.done("steady").status == "ok"
    assert study.done("steady").cells == done.cells


@pytest.mark.slow
def test_the_skipped_is_run_when_its_package_appears(study):
    assert study.run("needing") == 0
    skipped = {r.subject: r for r in study.records("needing") if r.subject}
    assert skipped["needs_nothing"].status == "ok"
    assert skipped["needs_a_thing"].status == "skipped"
    assert "not installed here: a_thing_for_tests" in skipped["needs_a_thing"].reason
    assert study.resume() == 0
    assert study.diary() == ["needs_nothing"], "nothing has changed, so nothing runs"

    packages = study.folder / "packages"
    packages.mkdir()
    (packages / "a_thing_for_tests.py").touch()
    path = {"PYTHONPATH": environment(packages)["PYTHONPATH"]}
    assert study.resume(**path) == 0
    assert study.diary()[1:] == ["needs_a_thing", "needs_nothing"]
    assert attempts(study, "needing") == {"both": 2}
    current = [r for r in runs.load_records(study.run_folder.path) if r.subject]
    assert {r.subject: r.status for r in current} == dict.fromkeys(skipped, "ok")
    assert study.resume(**path) == 0
    assert len(study.diary()) == 3


def test_a_damaged_log_stops_the_run_and_is_named(study):
    study.run("steady")
    log = study.run_folder.log("steady")
    damaged = b"{]" + log.read_bytes()
    log.write_bytes(damaged)
    assert study.resume() == 2
    assert f"{log}:1: not a record" in study.stderr
    assert log.read_bytes() == damaged
    assert study.diary() == ["first", "second"]


def test_a_log_another_process_appends_to_is_not_disturbed(study):
    """Records of a cell the plan does not have are kept, and are no part of the stage's result."""
    study.run("steady")
    stranger = msgspec.structs.replace(study.records("steady")[-1], cell="stranger", closes=0)
    with Log(study.run_folder.log("steady")) as log:
        log.append([stranger])
    assert study.resume() == 0
    assert "stranger" in study.ends("steady")
    assert "stranger" not in study.done("steady").cells
