"""A study with trackers: mirrored while it runs, and never harmed by them."""

import json
import signal
import sqlite3

import pytest
from study_process import StudyProcess, is_alive, wait_until

from assay.records.mirroring import missing
from assay.studies import kconfig
from assay.studies.tracking import PATIENCE_S, Tracking, tracking_of

BATCHES = 3 * 8


@pytest.fixture
def study(tmp_path, monkeypatch) -> StudyProcess:
    """A study whose trackers write into the test's own folder."""
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("WANDB_DIR", "ASSAY_TRACKERS", "ASSAY_TRACKER_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    return StudyProcess(folder=tmp_path)


def test_a_study_is_mirrored_while_it_runs(study):
    """Its second cell sleeps, so what trackio has then was mirrored live: nine batches of the first
    cell, with its end, and two of the second."""
    environment = {"ASSAY_TRACKERS": "trackio", "ASSAY_TEST_MISHAP": "walk1:3:sleep"}
    process = study.start(*study.run_arguments("walk", TRACKER_PROJECT="walks"), **environment)
    wait_until(lambda: len(_rows(study, "walks")) == 9 + 2, "points in trackio")
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert study.finish(process) == 130, study.stderr
    assert "mirrored to trackio, project walks" in study.stderr
    run = study.run_json
    assert (run.tracker_project, run.tracker_run) == ("walks", run.run)
    assert "tracker_project" not in run.reasons


def _rows(study, project: str) -> list[dict]:
    file = study.folder / "trackio" / f"{project}.db"
    if not file.exists():
        return []
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=60) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        rows = database.execute("SELECT metrics FROM metrics") if "metrics" in tables else ()
        return [json.loads(values) for (values,) in rows]


@pytest.mark.slow
def test_a_tracker_that_does_not_answer_harms_nothing(study):
    """W&B at an address where nobody is tries for 90 s; the study does not wait for that."""
    unreachable = {
        "WANDB_MODE": "online",
        "WANDB_API_KEY": "0" * 40,
        "WANDB_BASE_URL": "http://127.0.0.1:9",
    }
    assert study.run("walk", TRACKERS="wandb", env=unreachable) == 0
    assert f"not complete: it had not caught up {PATIENCE_S:g} s after" in study.stderr
    assert f"assay mirror {study.run_folder.path} --to wandb" in study.stderr
    assert len([r for r in study.records("walk") if r.metric == "place"]) == BATCHES
    assert not is_alive(int((study.run_folder.path / "mirror-wandb.lock").read_text()))


@pytest.mark.slow
def test_a_tracker_that_is_not_installed_is_said(study):
    (study.folder / "sitecustomize.py").write_text("import sys; sys.modules['wandb'] = None\n")
    path = study.process_environment()["PYTHONPATH"]
    environment = {"PYTHONPATH": f"{study.folder}:{path}"}
    assert study.run("walk", TRACKERS="wandb", env=environment) == 0
    assert "wandb is not installed; pip install wandb" in study.stderr
    assert not (study.run_folder.path / "mirror-wandb.log").exists()


def test_an_unknown_tracker_leaves_nothing_behind(study):
    assert study.run("walk", env={"ASSAY_TRACKERS": "wandbb"}) == 2
    assert "did you mean wandb?" in study.stderr
    assert not study.results.exists()


def test_without_trackers_nothing_is_started(study):
    assert study.run("walk", TRACKERS="trackio", env={"ASSAY_TRACKERS": ""}) == 0
    assert not list(study.run_folder.path.glob("mirror-*"))
    assert study.run_json.reasons["tracker_run"] == "no tracker is mirrored to"


def test_the_environment_goes_before_the_study(monkeypatch):
    for name in ("ASSAY_TRACKERS", "ASSAY_TRACKER_PROJECT", "WANDB_ENTITY"):
        monkeypatch.delenv(name, raising=False)
    study = kconfig.load(None, ["TRACKERS=wandb,trackio", "TRACKER_ENTITY=us"])
    chosen = Tracking(trackers=("wandb", "trackio"), project="mine", entity="us")
    assert tracking_of(study, "mine") == chosen
    monkeypatch.setenv("ASSAY_TRACKERS", "trackio")
    monkeypatch.setenv("ASSAY_TRACKER_PROJECT", "theirs")
    assert tracking_of(study, "mine") == Tracking(
        trackers=("trackio",), project="theirs", entity="us"
    )


def test_what_is_installed_needs_no_hint():
    assert missing("trackio") is None
