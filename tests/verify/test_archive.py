"""An archive in a real git repository: it grows, and nothing of the user's is touched."""

import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from assay.errors import BadInput, CannotRunHere
from assay.verify.evidence import FOLDER
from assay.verify.publish import archive, bundle

RUN = FOLDER / "quickstart-cpu"


def today():
    """The day of a tag, asked for anew: a run of all tests may pass midnight."""
    return f"{datetime.now(UTC):%Y%m%d}"


@pytest.fixture(scope="module")
def sealed():
    with bundle.temporary([RUN]) as made:
        yield made


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.org")


def git(repository: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(repository), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_new_archive_has_the_layout_a_commit_and_a_dated_tag(sealed, tmp_path):
    made = archive.write(sealed, RUN, tmp_path / "repo", "q1")
    assert (
        made.tag == f"q1-{today()}" and git(made.repository, "rev-parse", made.tag) == made.commit
    )
    folders = {path.name for path in (made.repository / "q1").iterdir() if path.is_dir()}
    assert folders == {"json", "plots", "logs", "models", "fim_maps", "interaction_maps"}
    assert git(made.repository, "status", "--porcelain") == ""
    summary = (made.repository / "q1" / "q1_summary.md").read_text()
    assert "| fim_maps/ | 0 | empty: the run saved no map" in summary
    assert sealed.digest in summary and "unknown: no stage of this study trains" in summary


def test_the_same_content_again_does_nothing(sealed, tmp_path):
    first = archive.write(sealed, RUN, tmp_path / "repo", "q1")
    again = archive.write(sealed, RUN, tmp_path / "repo", "q1")
    assert again.tag is None and again.commit == first.commit
    assert git(first.repository, "tag") == first.tag


def test_other_content_of_the_same_name_is_refused(sealed, tmp_path):
    made = archive.write(sealed, RUN, tmp_path / "repo", "q1")
    (made.repository / "q1" / "json" / "run.json").write_text("{}")
    git(made.repository, "commit", "-qam", "edited")
    with pytest.raises(BadInput, match="is not written over"):
        archive.write(sealed, RUN, made.repository, "q1")
    assert (made.repository / "q1" / "json" / "run.json").read_text() == "{}"


def test_a_second_one_of_the_day_has_a_tag_of_its_own(sealed, tmp_path):
    made = archive.write(sealed, RUN, tmp_path / "repo", "q1")
    git(made.repository, "rm", "-rq", "q1")
    git(made.repository, "commit", "-qm", "away")
    again = archive.write(sealed, RUN, made.repository, "q1")
    assert again.tag == f"q1-{today()}.2"
    assert git(made.repository, "rev-parse", made.tag) == made.commit  # as it was
    assert git(made.repository, "merge-base", "--is-ancestor", made.commit, again.commit) == ""


def test_work_that_is_not_committed_is_left_alone(sealed, tmp_path):
    made = archive.write(sealed, RUN, tmp_path / "repo", "q1")
    (made.repository / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="not committed"):
        archive.write(sealed, RUN, made.repository, "q2")
    assert git(made.repository, "status", "--porcelain") == "?? notes.txt"
    assert git(made.repository, "rev-parse", "HEAD") == made.commit


def test_a_commit_that_fails_leaves_the_repository_as_it_was(sealed, tmp_path):
    made = archive.write(sealed, RUN, tmp_path / "repo", "q1")
    hook = made.repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(CannotRunHere, match="not today"):
        archive.write(sealed, RUN, made.repository, "q2")
    assert git(made.repository, "status", "--porcelain") == ""
    assert not (made.repository / "q2").exists()


def test_without_a_name_for_the_commit_nothing_is_made(sealed, tmp_path, monkeypatch):
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.delenv(f"GIT_{role}_NAME")
        monkeypatch.delenv(f"GIT_{role}_EMAIL")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.useConfigOnly")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    monkeypatch.delenv("EMAIL", raising=False)
    with pytest.raises(CannotRunHere, match=r"set user\.name"):
        archive.write(sealed, RUN, tmp_path / "repo", "q1")
    assert not (tmp_path / "repo").exists()


def test_logs_and_saved_models_of_a_run(sealed, tmp_path):
    run = shutil.copytree(RUN, tmp_path / "run")
    cell = run / "stages" / "train" / "cells" / "ab12"
    cell.mkdir(parents=True)
    (cell.parents[1] / "stdout.log").write_text("read /srv/ann/data.txt\n")
    (cell / "last.json").write_text(json.dumps({"step": 3, "data": "/srv/ann/data.txt"}))
    (cell / "step-000003.safetensors").write_bytes(b"weights")
    made = archive.write(sealed, run, tmp_path / "repo", "q1")
    folder = made.repository / "q1"
    assert (folder / "logs" / "train.stdout.log").read_text() == "read …/data.txt\n"
    saved = json.loads((folder / "models" / "train-cells-ab12-last.json").read_text())
    assert saved == {"step": 3, "data": "…/data.txt"}
    assert "step-000003.safetensors" in (folder / "q1_summary.md").read_text()
    assert not list(folder.rglob("*.safetensors"))


def test_a_large_file_is_named_with_its_digest_instead(sealed, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "LARGEST_BYTES", 40_000)
    made = archive.write(sealed, RUN, tmp_path / "repo", "q1")
    left = {entry.name: entry.mark for entry in made.left_out}
    assert "json/correctness_results.json" in left
    assert not (made.repository / "q1" / "json" / "correctness_results.json").exists()
    summary = (made.repository / "q1" / "q1_summary.md").read_text()
    assert left["json/correctness_results.json"].sha256 in summary


@pytest.mark.parametrize("name", ["../up", "a b", "", ".git", "a..b", "x.lock", "-f", "a/b"])
def test_names_that_are_none_are_refused(sealed, tmp_path, name):
    with pytest.raises(BadInput, match="cannot name a folder"):
        archive.write(sealed, RUN, tmp_path / "repo", name)


def test_a_folder_with_files_that_is_no_repository_is_refused(sealed, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(BadInput, match="no git repository"):
        archive.write(sealed, RUN, tmp_path, "q1")
