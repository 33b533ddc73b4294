"""Runs come back from files, exports and stores of trackers; bad ones are refused in words."""

import json
import sqlite3

import pytest
from tracked_runs import START, write

from assay.errors import BadInput, CannotRunHere
from assay.trackers.metric_points import all_points, points
from assay.trackers.opening import SourceRequest, open_runs, requested
from assay.trackers.sources import trackio_store

ROWS = [[step, {"val/loss": 3 - step / 100, "<script>": 1.0}] for step in range(0, 50, 10)]
STRANGE = [[50, {"nan": float("nan"), "inf": float("inf"), "nested": {"a": 2}, "word": "x"}]]
CONFIG = {"learning_rate": 6e-4, "model": {"n_layer": 2}, "seed": 0}
SYSTEM = [[second, {"gpu.0.gpu": 50.0}] for second in range(3)]


@pytest.fixture(scope="module")
def wandb_folder(tmp_path_factory):
    run = {"config": CONFIG, "rows": ROWS + STRANGE, "summary": {"final": 2.5}, "system": SYSTEM}
    return write(
        "wandb",
        tmp_path_factory.mktemp("wandb"),
        {**run, "name": "twin", "id": "aaa", "gpu": {"name": "NVIDIA H200", "count": 2}},
        {**run, "name": "twin", "id": "bbb", "exit_code": 1},
        {"name": "empty", "id": "ccc"},
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    run = {"config": CONFIG, "rows": ROWS + STRANGE, "system": [[0, {"power_w": 300.0}]]}
    return write(
        "trackio",
        tmp_path_factory.mktemp("trackio"),
        {**run, "name": "twin", "id": "aaa"},
        {**run, "name": "twin", "id": "bbb"},
    )


def read(path, content=None, name=None):
    if content is not None:
        path.write_text(content)
    (run,) = open_runs(requested(str(path), name))
    return run


def refusal(path, content=None, kind=BadInput):
    with pytest.raises(kind) as raised:
        read(path, content)
    return str(raised.value)


def assert_is_as_written(run):
    assert run.config == {"learning_rate": 6e-4, "model.n_layer": 2, "seed": 0}
    assert points(run, "val/loss").by_step == {s: values["val/loss"] for s, values in ROWS}
    metrics = all_points(run.history)
    assert metrics["<script>"].count == 5 and metrics["nested.a"].by_step == {50: 2.0}
    assert metrics["nan"].unusable == metrics["inf"].unusable == {"not finite": 1}
    assert not metrics["nan"].by_step and metrics["word"].unusable == {"no number": 1}


def test_a_folder_of_wandb_comes_back(wandb_folder):
    run = read(wandb_folder, name="aaa")
    assert_is_as_written(run)
    assert (run.name, run.project, run.entity, run.state) == ("twin", "p", "e", "finished")
    assert run.summary["final"] == 2.5
    assert run.history[0].time == START and run.system[0].values == {"system.gpu.0.gpu": 50.0}
    machine = run.metadata
    assert (machine.gpu_name, machine.gpu_count) == ("NVIDIA H200", 2)
    assert machine.gpu_memory_bytes == 80 << 30
    assert read(wandb_folder, name="bbb").state == "failed"


def test_a_run_without_history_is_a_run(wandb_folder):
    assert read(wandb_folder, name="empty").history == ()


def test_a_store_of_trackio_comes_back(store):
    run = read(store, name="aaa")
    assert_is_as_written(run)
    assert run.project == "p" and run.system[0].values == {"device/power_w": 300.0}
    assert len(open_runs(requested(str(store.parent)))) == 2


@pytest.mark.parametrize("source", ["wandb_folder", "store"])
def test_of_two_runs_of_one_name_none_is_picked(source, request):
    place = request.getfixturevalue(source)
    with pytest.raises(BadInput, match=r"2 runs .* called 'twin': twin \(aaa\), twin \(bbb\)"):
        read(place, name="twin")
    with pytest.raises(BadInput, match="no run 'other'"):
        read(place, name="other")


def test_a_path_may_name_its_run(store):
    (run,) = open_runs(requested(f"{store}::bbb"))
    assert run.identity == "bbb"


def test_a_wandb_file_that_is_cut_gives_its_beginning_and_says_so(wandb_folder, tmp_path):
    (file,) = wandb_folder.glob("offline-run-*/run-aaa.wandb")
    cut = tmp_path / "run-aaa.wandb"
    content = file.read_bytes()
    cut.write_bytes(content[: len(content) * 2 // 3])
    run = read(cut)
    assert 0 < len(run.history) < 6 or not run.system
    assert "ends within a message" in run.remarks[0]
    cut.write_bytes(b"SQLite")
    assert "not a file of W&B" in refusal(cut)


def test_files_of_wandb_without_its_log_are_read(tmp_path):
    files = tmp_path / "run-20260101_000000-xyz" / "files"
    files.mkdir(parents=True)
    (files / "config.yaml").write_text("wandb_version: 1\nlr:\n  desc: null\n  value: 0.1\n")
    (files / "wandb-summary.json").write_text('{"loss": 2.0}')
    facts = {"git": {"commit": "c0ffee"}, "gpu": "NVIDIA A100", "gpu_count": 8, "host": "box"}
    (files / "wandb-metadata.json").write_text(json.dumps(facts))
    (files / "requirements.txt").write_text("torch==2.4.0\nrich==1.0\n")
    run = read(tmp_path)
    assert run.config["lr"] == 0.1 and run.summary == {"loss": 2.0}
    assert (run.metadata.commit, run.metadata.gpu_count, run.host) == ("c0ffee", 8, "box")
    assert run.metadata.versions == {"torch": "2.4.0"} and "no history" in run.remarks[0]
    (files / "wandb-metadata.json").write_text('{"gpuCount": Infinity}')
    assert read(tmp_path).metadata.gpu_count is None
    (files / "config.yaml").write_text("lr: 2026-13-45\n")
    assert "config.yaml is no YAML: month must be in 1..12" in refusal(tmp_path)
    (files / "config.yaml").write_text("lr: !!python/object/apply:os.getcwd []\n")
    assert "is no YAML" in refusal(tmp_path)


PANEL = (
    '"Step","big - run - loss","big - run - loss__MIN","big - run - loss__MAX","b - loss"\n'
    '"0","3.0","3.0","3.0",""\n"10","2.5","2.0","3.0","2.9"\n"30","NaN","","","2.7"\n'
)


def test_a_panel_exported_as_csv_has_its_runs_apart(tmp_path):
    (tmp_path / "panel.csv").write_text(PANEL)
    first, second = open_runs(requested(str(tmp_path / "panel.csv")))
    assert (first.name, second.name) == ("big - run", "b")
    assert points(first, "loss").by_step == {0: 3.0, 10: 2.5}
    assert points(first, "loss").unusable == {"not finite": 1}
    assert points(second, "loss").holes == "1 empty, irregular steps"
    assert "1 values are averages of several points" in first.remarks[1]


def test_a_data_frame_as_csv_is_one_run(tmp_path):
    run = read(
        tmp_path / "mine.csv", ",_step,loss,_timestamp\n0,0,3,10\n1,10,,20\n2,20,2,30\n3,40,1,9\n"
    )
    loss = points(run, "loss")
    assert loss.by_step == {0: 3.0, 20: 2.0, 40: 1.0}
    assert loss.holes == "1 empty, 1 step missing"
    assert [row.time for row in run.history] == [10, 20, 30, 9]


@pytest.mark.parametrize(
    "text, wanted",
    [
        ('Step,a - loss\n0,"3\n1,2\n', "line 3: unexpected end of data"),
        ('Step,a - loss\n0,"3"x\n', "line 2"),
        ("Step,a - loss\n0,1,2\n", "line 2: 3 cells"),
        ("x,y\n0,1\n", "no column of steps"),
        ("", "no column of steps"),
        ("Step,a - loss,a - loss\n", "two columns of one name"),
    ],
)
def test_a_csv_that_is_none_is_refused_in_words(tmp_path, text, wanted):
    assert wanted in refusal(tmp_path / "bad.csv", text)


HISTORY = [{"_step": 0, "loss": 3.0}, {"_step": 10, "loss": "NaN"}, {"_step": 20, "loss": 2.0}]


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.json", json.dumps(HISTORY)),
        ("a.jsonl", "\n".join(map(json.dumps, HISTORY))),
        (
            "a.json",
            json.dumps({c: {str(i): r[c] for i, r in enumerate(HISTORY)} for c in HISTORY[0]}),
        ),
    ],
)
def test_histories_as_json_come_back(tmp_path, name, content):
    loss = points(read(tmp_path / name, content), "loss")
    assert loss.by_step == {0: 3.0, 20: 2.0} and loss.holes == "1 not finite"


def test_a_whole_run_as_json_comes_back(tmp_path):
    whole = {
        "name": "n", "id": "i", "config": {"lr": {"value": 0.1}, "_wandb": {}}, "history": HISTORY,
        "summary": {"loss": 2.0}, "events": [{"_timestamp": 5, "system.gpu.0.temp": 60}],
        "metadata": {"gpu": "NVIDIA H100", "gpu_count": 1}, "state": "crashed",
    }  # fmt: skip
    run = read(tmp_path / "a.json", json.dumps(whole))
    assert (run.config, run.state, run.metadata.gpu_count) == ({"lr": 0.1}, "crashed", 1)
    assert run.system[0].values == {"system.gpu.0.temp": 60.0} and run.system[0].time == 5
    (tmp_path / "b.json").write_text(json.dumps([whole, {**whole, "id": "j"}]))
    assert len(open_runs(requested(str(tmp_path / "b.json")))) == 2


@pytest.mark.parametrize(
    "text",
    ["[1, 2, 3]", "3", "[]", '{"a": 1}', "{", '[{"loss": 1}]', '{"history": 3}', "[" * 99_999],
)
def test_json_that_is_no_history_is_refused_in_words(tmp_path, text):
    message = refusal(tmp_path / "bad.json", text)
    assert "wanted rows" in message or "cannot be read as JSON" in message


def test_a_step_column_that_every_row_has_is_the_step(tmp_path):
    rows = [{"_step": i, "train/global_step": 100 * i, "eval/loss": 1.0} for i in range(3)]
    run = read(tmp_path / "a.json", json.dumps(rows))
    assert points(run, "eval/loss").steps == [0, 100, 200]
    assert run.step_column == "train/global_step"
    run = read(tmp_path / "a.json", json.dumps([*rows, {"_step": 3, "eval/loss": 2.0}]))
    assert points(run, "eval/loss").steps == [0, 1, 2, 3]


def test_holes_are_counted_by_the_rhythm_of_a_metric(tmp_path):
    rows = [{"_step": step, "loss": 1.0} for step in (0, 10, 20, 50, 60, 60, 70, 75)]
    loss = points(read(tmp_path / "a.json", json.dumps(rows)), "loss")
    assert (loss.missing, loss.repeated, loss.count) == (2, 1, 8)


def test_an_empty_store_and_one_that_is_none_are_refused(tmp_path):
    file = tmp_path / "p.db"
    file.write_bytes(b"")
    assert "no table of metrics" in refusal(file)
    file.write_text("not a database, but long enough to have a header of one hundred bytes " * 2)
    assert "is no store of trackio" in refusal(file)


def test_a_store_with_other_columns_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "p.db") as database:
        database.execute("CREATE TABLE metrics (id INTEGER, metrics TEXT)")
    assert "no column run_name, step, timestamp" in refusal(tmp_path / "p.db")


def test_a_store_that_is_locked_is_refused_as_such(store, monkeypatch, tmp_path):
    monkeypatch.setattr(trackio_store, "_WAIT_S", 0.05)
    copy = tmp_path / "p.db"
    copy.write_bytes(store.read_bytes())
    with sqlite3.connect(copy) as writer:
        writer.execute("PRAGMA journal_mode=DELETE")
        writer.execute("BEGIN EXCLUSIVE")
        assert "is locked by a process" in refusal(copy, kind=CannotRunHere)
        writer.rollback()
    before = copy.read_bytes()
    assert len(open_runs(requested(str(copy)))) == 2 and copy.read_bytes() == before


def test_without_a_key_wandb_says_how_to_get_one(monkeypatch, tmp_path):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    with pytest.raises(CannotRunHere, match="WANDB_API_KEY"):
        open_runs(SourceRequest(entity="e", project="p"))


def test_what_no_source_knows_is_refused_with_what_is_wanted(tmp_path):
    assert "holds no run of a tracker; wanted" in refusal(tmp_path)
    assert "there is no file or folder" in refusal(tmp_path / "absent")
