"""A real run beside its own mirrors: they agree, and a symbol that was changed is named."""

import json
import shutil
import subprocess
import sys

import pytest
from new_process import environment

from assay import plugins
from assay.verify.checks.tracker_config import look
from assay.verify.compared import RunComparison
from assay.verify.evidence import FOLDER
from assay.verify.judgement import judge
from assay.verify.trackers.runs import load, load_all


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    """A run of 21 trained models with what its two mirrors wrote."""
    place = tmp_path_factory.mktemp("mirrored")
    shutil.copytree(FOLDER / "train-ablation-h200", place / "run")
    ours = {"WANDB_MODE": "offline", "TRACKIO_DIR": str(place), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "assay", "mirror", "run", "--to", "wandb,trackio"]
    surroundings = environment(**ours, WANDB_ERROR_REPORTING="false")
    surroundings.pop("WANDB_DIR", None)
    subprocess.run(command, cwd=place, env=surroundings, check=True, stdin=subprocess.DEVNULL)
    return place


@pytest.fixture(autouse=True)
def stores(mirrored, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(mirrored))
    monkeypatch.delenv("WANDB_DIR", raising=False)


def findings(run):
    return look(RunComparison(runs=(load(run),)))


def test_a_run_and_its_mirrors_say_the_same(mirrored):
    (finding,) = findings(mirrored / "run")
    assert finding.verdict == "holds" and "87 symbols as in 46 runs" in finding.reason


def test_a_symbol_that_was_changed_is_named(mirrored, tmp_path):
    changed = tmp_path / "run"
    shutil.copytree(mirrored / "run", changed, symlinks=True)
    content = json.loads((changed / "run.json").read_text())
    content["config"]["TRAIN_WARMUP"] = "61"
    (changed / "run.json").write_text(json.dumps(content))
    (finding,) = findings(changed)
    assert finding.verdict == "fails" and "TRAIN_WARMUP is 61 and 60 in wandb" in finding.reason


def test_it_is_silent_where_no_tracker_was_used(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    assert findings(FOLDER / "train-ablation-h200") == []


def test_a_mirror_that_is_not_here_is_not_tested(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    shutil.copytree(FOLDER / "train-ablation-h200", tmp_path / "run")
    content = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps({**content, "tracker_project": "p"}))
    (finding,) = findings(tmp_path / "run")
    assert finding.verdict == "not tested" and "project p is not here" in finding.reason


def test_without_wandb_its_files_are_not_tested(mirrored, monkeypatch, tmp_path):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    there = plugins.installed
    monkeypatch.setattr(plugins, "installed", lambda name: name != "wandb" and there(name))
    (finding,) = findings(mirrored / "run")
    assert finding.verdict == "not tested" and "pip install wandb" in finding.reason


@pytest.mark.parametrize(
    "one, other", [("run", "store"), ("run", "run/wandb"), ("run/wandb", "store")]
)
def test_all_checks_look_at_a_mirrored_run_and_blame_nothing(mirrored, one, other):
    (store,) = mirrored.glob("*.db")
    paths = [store if place == "store" else mirrored / place for place in (one, other)]
    made = judge(RunComparison(runs=load_all(paths)))
    assert [f for f in made if f.verdict == "fails"] == []
    held = {f.check for f in made if f.verdict == "holds"}
    assert {"batch", "budget", "commit", "complete", "learning_rate", "parameters"} <= held
    assert {"seeds", "stop_rule", "optimizer", "compiled", "dtype", "tracker_names"} <= held
