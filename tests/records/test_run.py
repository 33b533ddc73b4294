"""A run's folder: what is written is read again, and what is no run is refused by name."""

import threading
from datetime import datetime

import pytest
from made_records import RUN, batch, record, run_folder, run_json
from msgspec.structs import replace

from assay.errors import BadInput, CannotRunHere
from assay.records import run as runs
from assay.records.run import Done, RunFolder
from assay.records.schema import KEYS, SCHEMA

DONE = Done(
    status="failed",
    reason="1 of 2 cells failed, the first is a",
    cells={"a": "f0", "b": "f1"},
    counts={"failed": 1, "ok": 1},
    session=2,
    time="2025-01-01T00:00:00.000Z",
)


def test_run_json_comes_back_as_it_was(tmp_path):
    run = run_json(budget=1.5, batch=[1, 8], compiled=True, versions={"numpy": "2.1"})
    runs.save(RunFolder(path=tmp_path), run)
    folder, stored = runs.open_run(tmp_path)
    assert stored == run
    assert folder.path == tmp_path
    assert "run" not in KEYS and "seed" in KEYS, "keys are what comparisons need, not names"
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"], "a temporary file was left"


def test_a_reader_never_sees_half_of_a_replaced_run_json(tmp_path):
    folder = RunFolder(path=tmp_path)
    states = [run_json(reasons={"k": letter * 100_000}) for letter in "ab"]
    runs.save(folder, states[0])
    writing = threading.Thread(
        target=lambda: [runs.save(folder, states[i % 2]) for i in range(100)]
    )
    writing.start()
    seen = set()
    while writing.is_alive():
        _, stored = runs.open_run(tmp_path)
        assert stored in states
        seen.add(stored.reasons["k"][0])
    writing.join()
    assert seen == {"a", "b"}


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"is not the folder of a run: it holds no run\.json"):
        runs.open_run(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b'{"schema": 1, "run": "x"}'], ids=repr
)
def test_a_corrupt_run_json_is_named(tmp_path, content):
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(BadInput, match=rf"cannot read {tmp_path}/run\.json"):
        runs.open_run(tmp_path)


def test_a_run_of_another_schema_is_refused(tmp_path):
    runs.save(RunFolder(path=tmp_path), run_json(schema=SCHEMA + 1))
    with pytest.raises(BadInput, match=f"has schema {SCHEMA + 1}; this assay reads {SCHEMA}"):
        runs.open_run(tmp_path)


def test_runs_are_found_by_study_and_age(tmp_path):
    names = ["20250103T000000Z-aa", "20250101T000000Z-ff", "20250102T000000Z-00"]
    for study, name in zip(["a", "b", "b"], names, strict=True):
        run_folder(tmp_path, study=study, name=name)
    (tmp_path / "a" / "begun").mkdir()
    (tmp_path / ".index").mkdir()
    listed = [folder.path.name for folder in runs.runs_below(tmp_path)]
    assert listed == names
    assert runs.newest_run(tmp_path).name == names[0]


def test_a_run_is_a_results_folder_of_one(tmp_path):
    folder = run_folder(tmp_path)
    assert runs.runs_below(folder.path) == [folder]
    assert runs.newest_run(folder.path) == folder.path


def test_no_results_and_no_runs_are_bad_input(tmp_path):
    with pytest.raises(BadInput, match="there is no results folder"):
        runs.runs_below(tmp_path / "results")
    assert runs.runs_below(tmp_path) == []
    with pytest.raises(BadInput, match="there is no run below"):
        runs.newest_run(tmp_path)


def test_new_runs_get_folders_of_their_own(tmp_path):
    made = [runs.create(tmp_path, "study").path for _ in range(5)]
    assert len(set(made)) == 5 and all(path.is_dir() for path in made)
    assert all(path.parent == tmp_path / "study" for path in made)


def test_a_name_that_is_taken_is_drawn_again(tmp_path, monkeypatch):
    """Two runs of one millisecond once drew the same four digits and shared a folder."""
    drawn = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr(runs.secrets, "token_hex", lambda size: next(drawn))
    monkeypatch.setattr(runs, "datetime", Standing)
    first, second = (runs.create(tmp_path, "study").path for _ in range(2))
    assert first.name.endswith("aaaa") and second.name.endswith("bbbb")


class Standing:
    """A clock that stands still."""

    @staticmethod
    def now(zone):
        return datetime(2025, 1, 1, tzinfo=zone)


def test_done_comes_back_as_it_was_and_is_absent_before(tmp_path):
    folder = run_folder(tmp_path, bench=[])
    assert runs.read_done(folder, "bench") is None
    runs.write_done(folder, "bench", DONE)
    assert runs.read_done(folder, "bench") == DONE
    folder.done_file("bench").write_bytes(b'{"status"')
    with pytest.raises(BadInput, match="DONE"):
        runs.read_done(folder, "bench")


def test_records_of_a_stage_are_all_attempts_and_of_a_run_the_last(tmp_path):
    attempts = [batch("a", 2), [record(cell="a", attempt=2)], batch("b", 1)]
    folder = run_folder(tmp_path, bench=attempts, check=[batch("a", 1, stage="check")])
    assert len(runs.stage_records(folder, "bench")) == 4
    assert runs.stage_records(folder, "host") == []
    records = runs.load_records(tmp_path)
    assert [(r.cell, r.attempt) for r in records] == [("a", 2), ("b", 1), ("a", 1)]
    assert runs.load_records(folder.path) == records


def test_records_of_several_runs_do_not_supersede_each_other(tmp_path):
    run_folder(tmp_path, name="one", bench=[[record(run="one", attempt=3)]])
    run_folder(tmp_path, name="two", bench=[[record(run="two")]])
    assert [(r.run, r.attempt) for r in runs.load_records(tmp_path)] == [("one", 3), ("two", 1)]


def test_a_held_run_is_refused_to_others_and_free_afterwards(tmp_path):
    folder = run_folder(tmp_path)
    with (
        folder.held(),
        pytest.raises(CannotRunHere, match=rf"{RUN} is being run by process \d+"),
        folder.held(),
    ):
        pass
    with folder.held():
        assert replace(runs.open_run(folder.path)[1], sessions=[])
