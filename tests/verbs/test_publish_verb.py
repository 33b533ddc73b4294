"""`assay publish`, and `assay verify` of what it made."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from verbs.command_line import assay
from verify.altered_runs import fit

import assay as assay_package
from assay.host import CHECKOUT
from assay.verify.publish import inspection
from assay.verify.publish.manifest import read_manifest
from assay.verify.publish.readme import readme

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
    (run,) = manifest["runs"].values()
    assert run["facts"]["study"] == "quickstart" and run["facts"]["dirty"] is False
    assert run["hardware"] and run["findings"]["commit"] == {"holds": 1}
    assert run["facts"]["dataset"] is None and "no stage" in run["reasons"]["dataset"]
    wanted = {"run.json", "metrics.jsonl.gz", "report.md", "tables/speed.csv", "README.md"}
    assert wanted <= manifest["files"].keys()


def test_the_readme_of_a_bundle_has_five_lines(published):
    lines = [line for line in (published[0] / "README.md").read_text().splitlines() if line]
    assert len(lines) == 5 and "assay verify . --digest" in lines[-1]


def test_a_table_has_its_numbers_in_full(published):
    rows = list(csv.DictReader((published[0] / "tables" / "speed.csv").open()))
    records = assay_package.load_records(published[0])
    measured = {r.value for r in records if r.metric == "latency_ms"}
    assert {float(row["forward (ms)"]) for row in rows} == measured


def test_as_published_it_passes_on_any_machine(published, tmp_path):
    folder, digest = published
    moved = shutil.copytree(folder, tmp_path / "elsewhere")
    done = assay("verify", moved, "--digest", digest, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "are what its records give" in " ".join(done.stdout.split())


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
    code = json.loads(text)["code"]
    (work / "manifest.json").write_text(text.replace(code, "0" * 64))
    fit(work)
    done = assay("verify", work, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "another version of assay" in " ".join(done.stdout.split())


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


@pytest.mark.parametrize("name", ["report.html", "figures/latency_bench.png", "tables/speed.csv"])
def test_a_drawing_that_was_edited_with_its_checksum_is_found(published, tmp_path, name):
    work = shutil.copytree(published[0], tmp_path / "edited")
    (work / name).write_bytes((work / name).read_bytes() + b" ")
    fit(work)
    findings = inspection.inspect(work)
    assert f"not what its records give: {name}" in [f.reason for f in findings]


def test_a_drawing_of_other_versions_is_not_blamed(published, tmp_path):
    work = shutil.copytree(published[0], tmp_path / "older")
    manifest = json.loads((work / "manifest.json").read_text())
    manifest["drawn_with"]["matplotlib"] = "3.1"
    (work / "manifest.json").write_text(json.dumps(manifest))
    (work / "figures" / "latency_bench.png").write_bytes(b"as it was drawn then")
    fit(work)
    findings = inspection.inspect(work)
    assert not [f for f in findings if f.verdict == "fails"]
    (line,) = [f.reason for f in findings if "latency_bench.png" in f.reason]
    assert "drawn with matplotlib 3.1, here it is" in line


def test_findings_that_were_counted_otherwise_are_found(published, tmp_path):
    work = shutil.copytree(published[0], tmp_path / "counted")
    manifest = json.loads((work / "manifest.json").read_text())
    manifest["runs"]["."]["findings"]["samples"] = {"holds": 99}
    (work / "manifest.json").write_text(json.dumps(manifest))
    (work / "README.md").write_text(readme(read_manifest(work)))
    fit(work)
    failing = [f.reason for f in inspection.inspect(work) if f.verdict == "fails"]
    assert failing == ["the manifest counts other findings than its records give: samples"]


def test_a_bundle_without_its_manifest_fails_where_a_digest_is_given(published, tmp_path):
    """It looked like a plain run, and passed as one."""
    work = shutil.copytree(published[0], tmp_path / "bare")
    (work / "manifest.json").unlink()
    done = assay("verify", work, "--digest", published[1], cwd=tmp_path)
    assert done.returncode == 1 and "manifest.json is missing" in done.stdout


def test_a_bundle_of_another_version_is_refused(published, tmp_path):
    work = shutil.copytree(published[0], tmp_path / "newer")
    (work / "manifest.json").write_text('{"schema": 7}')
    done = assay("verify", work, cwd=tmp_path)
    assert done.returncode == 2 and "a bundle of version 7" in done.stderr


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> tuple[Path, str]:
    """A bundle of one run and its repetition, and its digest."""
    folder = tmp_path_factory.mktemp("two")
    again = shutil.copytree(EVIDENCE / "quickstart-cpu", folder / "again")
    done = assay("publish", EVIDENCE / "quickstart-cpu", again, "--to", "bundle", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "bundle", done.stdout.partition("digest: ")[2].split()[0]


@pytest.mark.slow
def test_a_bundle_of_two_runs_has_both_and_passes(two, tmp_path):
    moved = shutil.copytree(two[0], tmp_path / "moved")
    manifest = json.loads((moved / "manifest.json").read_text())
    assert set(manifest["runs"]) == {"runs/again", "runs/quickstart-cpu"}
    assert manifest["pair"]["findings"]["workloads"] and (moved / "runs/again/report.md").is_file()
    done = assay("verify", moved, "--digest", two[1], cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("PASS  moved"), done.stdout


def test_a_run_of_two_that_was_exchanged_is_found(two, tmp_path):
    work = shutil.copytree(two[0], tmp_path / "work")
    run = json.loads((work / "runs/again/run.json").read_text())
    run["seed"] = 7
    (work / "runs/again/run.json").write_text(json.dumps(run))
    fit(work)
    done = assay("verify", work, cwd=tmp_path)
    assert done.returncode == 1 and "contradicts runs/again/run.json: seed" in done.stdout


@pytest.mark.slow
def test_one_of_several_runs_is_compared_by_its_own_folder(two, published, tmp_path):
    done = assay("verify", two[0], published[0], cwd=tmp_path)
    assert done.returncode == 2 and "name one of them, such as" in done.stderr
    done = assay("verify", two[0] / "runs/again", published[0], cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("FAIR"), done.stdout


def test_two_runs_that_may_not_be_compared_are_not_published_together(tmp_path):
    other = shutil.copytree(EVIDENCE / "quickstart-cpu", tmp_path / "other")
    run = json.loads((other / "run.json").read_text())
    run["dtype"] = ["bfloat16"]
    (other / "run.json").write_text(json.dumps(run))
    done = assay("publish", EVIDENCE / "quickstart-cpu", other, "--to", "bundle", cwd=tmp_path)
    assert done.returncode == 1 and not (tmp_path / "bundle").exists()
    assert "NOT PUBLISHED  quickstart-cpu and other: dtype" in done.stdout


def test_bad_input_is_told_in_words(published, tmp_path):
    for arguments, said in (
        (["publish", EVIDENCE / "spine", "--to", published[0]], "is there already"),
        (["publish", "nowhere"], "nowhere"),
        (["verify", EVIDENCE / "spine", published[0], "--digest", "0"], "belongs to one bundle"),
        (["verify", "nowhere", "--digest", "0"], "there is no folder nowhere"),
        (["publish", EVIDENCE / "spine", "--treatment", "MODELS"], "are of two runs"),
        (["publish", EVIDENCE / "spine", "--explain", "x"], "gives no reason"),
        (["publish", EVIDENCE / "spine", EVIDENCE / "spine"], "a run is given twice"),
        (["publish", EVIDENCE / "spine", "--paper", "p", "--to", "b"], "give one"),
        (["publish", EVIDENCE / "spine", "--name", "n"], "give --archive REPO with it"),
        (["publish", published[0], "--paper", "p"], "published already"),
    ):
        done = assay(*arguments, cwd=tmp_path)
        assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_an_empty_digest_is_one_that_does_not_fit(published, tmp_path):
    """`--digest "$DIGEST"` with nothing in it must not pass for no digest at all."""
    bare = shutil.copytree(published[0], tmp_path / "bare")
    assert assay("verify", bare, "--digest", "", cwd=tmp_path).returncode == 1
    (bare / "manifest.json").unlink()
    assert assay("verify", bare, "--digest", "", cwd=tmp_path).returncode == 1


def test_a_paper_and_an_archive_are_made_from_the_command_line(tmp_path):
    run = EVIDENCE / "quickstart-cpu"
    done = assay("publish", run, "--paper", "paper", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0 and not list(tmp_path.iterdir())
    done = assay("publish", run, "--paper", "paper", cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "paper" / "main.tex").is_file(), done.stderr
    done = assay("publish", run, "--archive", "repo", "--dry-run", cwd=tmp_path)
    assert "would be quickstart in repo" in done.stdout and not (tmp_path / "repo").exists()
