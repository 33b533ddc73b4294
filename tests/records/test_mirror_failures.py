"""A mirror that cannot do its work: one sentence, an exit code, and nothing lost."""

import gzip
import resource
import shutil

import pytest
from made_records import record
from mirror_process import new_place
from mirrored_run import write
from new_process import environment
from stored_points import recorded_curves, trackio_curves, wandb_curves

from assay.errors import BadInput, CannotRunHere
from assay.records import mirroring

HIDDEN = "import sys; sys.modules['{package}'] = None"


@pytest.mark.parametrize(
    "name, hint", [("wandbb", "did you mean wandb"), ("Trackio", "did you mean trackio"),
                   ("mlflow", "there are trackio, wandb")],
)  # fmt: skip
def test_an_unknown_tracker(name, hint):
    with pytest.raises(BadInput, match=hint):
        mirroring.chosen(f"wandb,{name}")


@pytest.mark.parametrize("name", ["../elsewhere", "", "a/b", "x" * 200, "-rf", "a\nb"])
def test_a_project_that_is_no_name(name):
    with pytest.raises(BadInput, match="cannot name a tracker's project"):
        mirroring.project_name(name)


def test_a_folder_that_is_no_run(tmp_path):
    place = new_place(tmp_path)
    place.run.run_file.unlink()
    done = place.mirror("--to", "trackio")
    assert done.returncode == 2 and "is not the folder of a run" in done.stderr
    assert not place.trackio.exists()


def test_a_run_of_another_schema(tmp_path):
    place = new_place(tmp_path)
    text = place.run.run_file.read_text()
    place.run.run_file.write_text(text.replace('"schema": 1', '"schema": 7'))
    done = place.mirror("--to", "trackio")
    assert done.returncode == 2 and "schema 7" in done.stderr and "Traceback" not in done.stderr


def test_a_corrupt_log_is_named_with_its_line(tmp_path):
    place = new_place(tmp_path, check=[[record(stage="check")], [record(stage="check")]])
    log = place.run.log("check")
    first, second = log.read_text().splitlines()
    log.write_text(f"{first}\n{second.replace('latency_ms', '')[:40]}\n{second}\n")
    done = place.mirror("--to", "trackio")
    assert done.returncode == 2 and "metrics.jsonl:2" in done.stderr


def test_a_tracker_that_is_not_installed(tmp_path):
    place = new_place(tmp_path)
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(HIDDEN.format(package="trackio"))
    done = place.mirror("--to", "trackio", PYTHONPATH=environment(hidden)["PYTHONPATH"])
    assert done.returncode == 3 and "trackio is not installed; pip install trackio" in done.stderr


@pytest.mark.slow
def test_a_full_disk_and_then_room(tmp_path):
    """W&B says nothing of a write that failed: the mirror does, for it reads the files."""
    place = new_place(tmp_path)
    write(place.run, 40)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        done = place.mirror("--to", "wandb,trackio")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.returncode == 3, done.stdout
    assert done.stderr.count("is the disk full?") == 2 and "Traceback" not in done.stderr
    done = place.mirror("--to", "wandb,trackio")
    assert done.returncode == 0, done.stderr
    assert wandb_curves(place.run.path) == recorded_curves(place.run)
    assert trackio_curves(place.trackio) == recorded_curves(place.run)


def test_wandb_without_a_key_says_what_to_do(tmp_path):
    place = new_place(tmp_path)
    write(place.run, 1)
    home = tmp_path / "home"
    home.mkdir()
    done = place.mirror("--to", "wandb", WANDB_MODE="online", HOME=str(home), WANDB_API_KEY="")
    assert done.returncode == 3 and "WANDB_MODE=offline" in done.stderr


def test_one_mirror_at_a_time(tmp_path, monkeypatch):
    """The second waits for the first, and gives up where that takes long."""
    monkeypatch.setattr(mirroring, "_PATIENCE_S", 0.0)
    place = new_place(tmp_path)
    second = mirroring._only_mirror("trackio", place.run, False)
    with (
        mirroring._only_mirror("trackio", place.run, False),
        pytest.raises(CannotRunHere, match=r"mirrors .* already"),
        second,
    ):
        pass


def test_an_archived_run_is_mirrored_too(tmp_path):
    place = new_place(tmp_path)
    write(place.run, 3)
    curves = recorded_curves(place.run)
    place.run.archive.write_bytes(gzip.compress(place.run.log("train").read_bytes()))
    shutil.rmtree(place.run.path / "stages")
    assert place.mirror("--to", "trackio").returncode == 0
    assert trackio_curves(place.trackio) == curves
