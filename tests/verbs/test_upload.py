"""`assay publish --upload`: a folder, a bare git repository, trackio and W&B as they are."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from verbs.command_line import assay

from assay.errors import CannotRunHere
from assay.host import CHECKOUT
from assay.verify.publish import bundle, upload
from assay.verify.publish.destinations import folder as folder_destination

EVIDENCE = CHECKOUT / "evidence"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    target = tmp_path_factory.mktemp("bundles") / "mine"
    return bundle.write([EVIDENCE / "capture-cost-cpu"], target)


@pytest.fixture(autouse=True)
def trackers_of_the_test(monkeypatch, tmp_path):
    """Trackers that write to this machine alone, and a name for commits."""
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "TRACKIO_SPACE_ID"):
        monkeypatch.delenv(name, raising=False)
    values = {
        "WANDB_MODE": "offline", "WANDB_DIR": tmp_path, "WANDB_DATA_DIR": tmp_path / "data",
        "WANDB_CACHE_DIR": tmp_path / "cache", "WANDB_ERROR_REPORTING": "false",
        "TRACKIO_DIR": tmp_path / "trackio", "HF_HUB_OFFLINE": "1", "HOME": tmp_path,
        "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org",
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))


def send(sealed, destination: str, cwd: Path, *more: str):
    return assay("publish", sealed.folder, "--upload", destination, *more, cwd=cwd)


@pytest.mark.parametrize("kind", ["folder:up", "git:bare.git", "trackio:proj", "wandb:proj"])
def test_a_bundle_is_sent_and_read_back_and_a_dry_run_touches_nothing(sealed, tmp_path, kind):
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "bare.git")], check=True)
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    dry = send(sealed, kind, tmp_path, "--dry-run")
    assert dry.returncode == 0 and dry.stdout.startswith("WOULD SEND"), dry.stderr
    assert "metrics.jsonl.gz" in dry.stdout
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
    done = send(sealed, kind, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "read back: every file is as sealed" in done.stdout and sealed.digest in done.stdout


@pytest.mark.parametrize("kind", ["folder:up", "git:bare.git#results", "trackio:proj"])
def test_what_is_there_is_not_written_over(sealed, tmp_path, kind):
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "bare.git")], check=True)
    assert send(sealed, kind, tmp_path).returncode == 0
    again = send(sealed, kind, tmp_path)
    assert again.returncode == 2 and "already" in again.stderr


def test_a_branch_grows_and_keeps_what_it_had(sealed, tmp_path):
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    for name in ("a", "b"):
        upload.send(sealed.folder, f"git:{bare}#results", name=name, dry_run=False)
    log = subprocess.run(
        ["git", "-C", str(bare), "log", "--format=%s", "results"], capture_output=True, text=True
    )
    assert log.stdout.split("\n")[:2] == ["b: a bundle of runs", "a: a bundle of runs"]


def test_a_run_becomes_a_bundle_on_the_way(tmp_path):
    done = assay("publish", EVIDENCE / "capture-cost-cpu", "--upload", "folder:up", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (sent,) = (tmp_path / "up").iterdir()
    assert (sent / "manifest.json").is_file()


def test_a_run_that_fails_a_check_is_not_sent(tmp_path):
    run = EVIDENCE / "check-h200"
    done = assay("publish", run, "--upload", "folder:up", cwd=tmp_path)
    assert done.returncode == 1 and "NOT PUBLISHED" in done.stdout
    assert not (tmp_path / "up").exists()


def test_an_altered_bundle_is_not_sent(sealed, tmp_path):
    work = shutil.copytree(sealed.folder, tmp_path / "work")
    (work / "report.md").write_text("better")
    done = assay("publish", work, "--upload", "folder:up", cwd=tmp_path)
    assert done.returncode == 1 and "altered: report.md" in done.stdout
    assert not (tmp_path / "up").exists()


def test_a_place_that_changes_bytes_is_found_on_reading_back(sealed, tmp_path, monkeypatch):
    def careless(bundle: Path, address: str, name: str) -> None:
        target = Path(shutil.copytree(bundle, Path(address) / name))
        (target / "report.md").write_text("cut off")

    monkeypatch.setattr(folder_destination, "send", careless)
    with pytest.raises(CannotRunHere, match=r"altered: report\.md"):
        upload.send(sealed.folder, f"folder:{tmp_path / 'up'}", name="x", dry_run=False)


def test_what_is_missing_here_ends_in_3(sealed, tmp_path, monkeypatch):
    gone = assay("publish", sealed.folder, "--upload", "git:no/such/repository", cwd=tmp_path)
    assert gone.returncode == 3 and "git clone failed" in gone.stderr
    monkeypatch.delenv("WANDB_MODE")
    done = send(sealed, "wandb:proj", tmp_path)
    assert done.returncode == 3 and "WANDB_API_KEY" in done.stderr


@pytest.mark.parametrize("package", ["wandb", "trackio"])
def test_a_package_that_is_not_installed_is_named(sealed, monkeypatch, package):
    monkeypatch.setattr("assay.plugins.installed", lambda name: name != package)
    with pytest.raises(CannotRunHere, match=f"pip install {package}"):
        upload.parse(f"{package}:proj")


def test_bad_destinations_are_refused_in_words(sealed, tmp_path):
    for destination, words in (
        ("nowhere", "wanted one of folder:ADDRESS"),
        ("mars:x", "wanted one of folder:ADDRESS"),
        ("git:--upload-pack=x", "names no repository"),
        ("wandb:a/b/c", "names no project"),
        ("trackio:../x", "trackio:../x"),
    ):
        done = send(sealed, destination, tmp_path)
        assert done.returncode == 2 and words in done.stderr, done.stderr
    assert os.listdir(tmp_path) in ([], ["trackio"])
