"""`assay publish`, and `assay verify` of what it made."""

import json
import shutil
from pathlib import Path

import pytest
from verbs.command_line import assay
from verify.altered_runs import fit

from assay.host import CHECKOUT

EVIDENCE = CHECKOUT / "evidence"


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> tuple[Path, str]:
    """A bundle and its digest."""
    folder = tmp_path_factory.mktemp("published") / "bundle"
    done = assay("publish", EVIDENCE / "quickstart-cpu", "--to", folder, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("PUBLISHED  quickstart-cpu")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("digest: ")]
    return folder, line.removeprefix("digest: ")


def test_a_bundle_says_what_it_is(published):
    folder, _ = published
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["facts"]["study"] == "quickstart" and manifest["facts"]["dirty"] is False
    assert manifest["hardware"] and manifest["findings"].get("fails") is None
    assert {"run.json", "metrics.jsonl.gz", "report.md"} <= manifest["files"].keys()


def test_as_published_it_passes_on_any_machine(published, tmp_path):
    folder, digest = published
    moved = shutil.copytree(folder, tmp_path / "elsewhere")
    done = assay("verify", moved, "--digest", digest, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "are what its records give" in done.stdout


def test_a_report_that_was_edited_with_its_checksum_is_found_without_the_digest(
    published, tmp_path
):
    work = shutil.copytree(published[0], tmp_path / "edited")
    text = (work / "report.md").read_text()
    (work / "report.md").write_text(text.replace("eager", "my_kernel"))
    fit(work)
    done = assay("verify", work, cwd=tmp_path)
    assert done.returncode == 1
    assert "not what its records give: report.md" in done.stdout


def test_a_report_of_another_version_of_assay_is_not_blamed(published, tmp_path):
    work = shutil.copytree(published[0], tmp_path / "older")
    (work / "report.md").write_text("As it was written then.")
    text = (work / "manifest.json").read_text()
    commit = json.loads(text)["made_by"]
    (work / "manifest.json").write_text(text.replace(f'"made_by": "{commit}"', '"made_by": null'))
    fit(work)
    done = assay("verify", work, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "another version of assay" in done.stdout


def test_an_altered_bundle_fails_and_nothing_in_it_is_believed(published, tmp_path):
    work = shutil.copytree(published[0], tmp_path / "altered")
    (work / "run.json").write_text("{}")
    done = assay("verify", work, cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stdout.startswith("FAIL  altered: bundle") and "altered: run.json" in done.stdout


def test_a_run_that_fails_a_check_is_not_published(tmp_path):
    done = assay("publish", EVIDENCE / "flash-vs-eager-h200", "--to", "bundle", cwd=tmp_path)
    assert done.returncode == 1
    assert "NOT PUBLISHED  flash-vs-eager-h200: baseline" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_writes_nothing(tmp_path):
    done = assay("publish", EVIDENCE / "spine", "--to", "bundle", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("PASS  spine would be published")
    assert list(tmp_path.iterdir()) == []


def test_bad_input_is_told_in_words(published, tmp_path):
    for arguments, said in (
        (["publish", EVIDENCE / "spine", "--to", published[0]], "is there already"),
        (["publish", "nowhere"], "nowhere"),
        (["verify", EVIDENCE / "spine", "--digest", "0"], "--digest belongs to a bundle"),
    ):
        done = assay(*arguments, cwd=tmp_path)
        assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
