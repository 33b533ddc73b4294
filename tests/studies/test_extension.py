"""A run with other settings: cells whose fingerprints match are not measured again."""

import json
import shutil

import pytest
from study_process import PLUGINS, StudyProcess

from assay.records import run as runs
from assay.verbs import study as study_verb

STAGE = '''"""A cell for each length."""

from _diary import begin

from assay.records.schema import Measurement
from assay.studies.cell import Cell


def cells(study):
    return [Cell(name=f"q{query}") for query, _ in study.lengths]


def run(cell):
    begin(cell.name)
    yield Measurement(metric="number", value=1, unit="")
'''


@pytest.fixture
def study(tmp_path) -> StudyProcess:
    shutil.copytree(PLUGINS, tmp_path / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "plugins" / "stages" / "by_length.py").write_text(STAGE)
    study = StudyProcess(folder=tmp_path, plugins=tmp_path / "plugins")
    assert study.run("by_length", LENGTHS="5,9") == 0
    assert sorted(study.diary()) == ["q5", "q9"]
    return study


def extend(study, *arguments):
    return study.finish(study.start("run", "--trust-plugins", "--extend", *arguments))


def test_an_extension_is_a_new_run_that_measures_what_is_new(study):
    first, before = study.run_folder.path, study.records("by_length")
    assert extend(study, str(first), "--set", "LENGTHS=9,17") == 0, study.stderr
    assert "1 cell to run, 1 kept" in study.stderr
    assert sorted(study.diary()) == ["q17", "q5", "q9"], "q9 is not measured again"
    assert study.run_folder.path != first
    assert runs.stage_records(runs.RunFolder(path=first), "by_length") == before
    ends = study.ends("by_length")
    assert {cell: end.session for cell, end in ends.items()} == {"q9": 1, "q17": 2}
    (measured,) = [r for r in before if r.cell == "q9" and r.metric == "number"]
    (kept,) = [r for r in study.records("by_length") if r.cell == "q9" and r.metric == "number"]
    assert (kept.time, kept.host, kept.fingerprint) == (
        measured.time,
        measured.host,
        measured.fingerprint,
    )
    assert {r.run for r in study.records("by_length")} == {study.run_folder.path.name}
    assert [s.number for s in study.run_json.sessions] == [1, 2]
    assert study.run_json.config["LENGTHS"] == '"9,17"'


def test_changed_code_is_measured_again(study):
    first = study.run_folder.path
    file = study.plugins / "stages" / "by_length.py"
    file.write_text(STAGE.replace("value=1", "value=222"))
    assert extend(study, str(first), "--set", "LENGTHS=5,9,17") == 0, study.stderr
    assert "3 cells to run\n" in study.stderr


def test_resuming_with_other_settings(study):
    first = study.run_folder.path
    resumed = study.start("resume", "--trust-plugins", "--set", "LENGTHS=5,9,17")
    assert study.finish(resumed) == 0, study.stderr
    assert study.run_folder.path == first and "1 cell to run, 2 kept" in study.stderr
    assert study.run_json.config["LENGTHS"] == '"5,9,17"'


REFUSED = {
    "nothing to add": ([], "say what, such as --set LENGTHS=1024"),
    "another source of settings": (
        ["--set", "SEED=1", "--config", "quickstart"],
        "leave out --con",
    ),
    "no such symbol": (["--set", "LENGHTS=5"], "did you mean LENGTHS?"),
    "a value out of range": (["--set", "ROUNDS=0"], "out of range"),
}


def test_what_cannot_be_extended_leaves_nothing_behind(study):
    first = study.run_folder.path
    for what, (arguments, message) in REFUSED.items():
        assert extend(study, str(first), *arguments) == 2, what
        assert message in study.stderr, what
    assert extend(study, str(first.parent), "--set", "SEED=1") == 2
    assert f"did you mean {first}?" in study.stderr
    assert [folder.path for folder in runs.runs_below(study.results)] == [first]


def test_a_dry_run_says_what_would_be_taken_over(study, capsys):
    first = study.run_folder.path
    extension = {"extend": first, "sets": ["LENGTHS=9,17"], "trust": True}
    study_verb.run(**extension, as_json=True, dry_run=True)
    remarks = {
        row["cell"]: row["remark"] for row in map(json.loads, capsys.readouterr().out.splitlines())
    }
    assert remarks == {"q9": "taken over", "q17": ""}
    study_verb.run(**extension, dry_run=True)
    assert "1 cell taken over from" in capsys.readouterr().out
    assert [folder.path for folder in runs.runs_below(study.results)] == [first]
