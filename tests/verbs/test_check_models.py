"""`assay check --models` as a user meets it."""

import json

import pytest
from command_line import assay

pytest.importorskip("torch")

FORGETFUL = '''"""Decodes with positions that begin anew with every call."""
import torch
from assay.models.gpt2.variants import GPT2


class GPT2_Forgetful(GPT2):
    def forward(self, idx, targets=None, cache=None):
        if cache is None:
            return super().forward(idx, targets)
        whole = self.wpe.weight.data
        try:
            self.wpe.weight.data = whole.roll(cache.length, 0)
            return super().forward(idx, targets, cache)
        finally:
            self.wpe.weight.data = whole
'''


@pytest.mark.parametrize(
    ("models", "wanted"),
    [
        ("GPT2_RA_RA", "RA twice"),
        ("GPT2_KV", "KV needs a part"),
        ("MLAKV3", "there is no step 'MLAKV3'; did you mean MLAKV"),
        ("", "--models is empty"),
        ("B,,RA", "empty entry"),
        ("gone.py", "there is no file"),
        ("empty.py", "has no model"),
    ],
)
def test_bad_input_exits_2_with_what_is_wanted(tmp_path, models, wanted):
    (tmp_path / "empty.py").write_text("X = 1\n")
    done = assay("check", "--models", models, cwd=tmp_path)
    assert done.returncode == 2 and wanted in done.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["eager", "--models", "B"],
        ["--models", "B", "--impl", "eager"],
        ["--models", "B", "--device", "cuda"],
        ["--models", "B", "--seed", "0"],
        ["--models", "B", "--fast"],
    ],
)
def test_what_contradicts_itself_exits_2(tmp_path, arguments):
    done = assay("check", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and "--models B" in done.stderr


def test_a_dry_run_lists_models_with_steps_and_parts(tmp_path):
    done = assay("check", "--models", "RAMLA1,1,B,0", "--dry-run", "--json", cwd=tmp_path)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows == [
        {"model": "GPT2_MLA_RA", "steps": "RAMLA", "parts": "MLA RA"},
        {"model": "GPT2+sparsity=0.5", "steps": "1", "parts": ""},
        {"model": "GPT2", "steps": "B 0", "parts": ""},
    ]
    assert "the trailing 1 means nothing" in done.stderr
    assert done.returncode == 0 and not (tmp_path / "results").exists()


def test_fast_is_a_part_of_all(tmp_path):
    fast = assay("check", "--models", "all", "--fast", "--dry-run", "--json", cwd=tmp_path)
    every = assay("check", "--models", "all", "--dry-run", "--json", cwd=tmp_path)
    few, many = (
        [json.loads(line)["model"] for line in done.stdout.splitlines()] for done in (fast, every)
    )
    assert 5 < len(few) < 15 and len(many) > 100 and set(few) <= set(many)


def test_one_table_and_how_to_debug_what_fails(tmp_path):
    (tmp_path / "mine.py").write_text(FORGETFUL)
    done = assay("check", "--models", "mine.py", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("mine.py")]
    assert "GPT2_Forgetful" in row and row.rstrip().endswith("cached")
    assert "cached: Compare the module that is first to differ" in done.stdout
    assert "differ from the full pass" in done.stdout
    assert done.stdout.count("fails") == 1, "one table"


@pytest.mark.slow
def test_what_was_not_examined_is_said_first(tmp_path):
    """A model whose cache is called past_key_values decodes wrongly; "8/8" and "holds" was all."""
    text = FORGETFUL.replace("cache=None", "past_key_values=None")
    text = text.replace("if cache is None", "cache = past_key_values\n        if cache is None")
    (tmp_path / "mine.py").write_text(text)
    done = assay("check", "--models", "mine.py", cwd=tmp_path)
    lines = done.stdout.splitlines()
    (row,) = [number for number, line in enumerate(lines) if line.startswith("mine.py")]
    passed, applied = lines[row].split()[-1].split("/")
    assert int(applied) == int(passed) + 2
    summary = next(line for line in lines[row + 1 :] if line.strip())
    assert summary.startswith("Not examined: cached and bytes of mine.py:GPT2_Forgetful: ")
    assert "past_key_values seems to be one: call it cache" in " ".join(done.stdout.split())
    assert lines[0].startswith("PASS  1 model: ") and "2 not examined" in lines[0], "nor said first"


def test_a_file_that_fails_on_import_exits_2(tmp_path):
    (tmp_path / "mine.py").write_text("import a_package_that_is_not_there\n" + FORGETFUL)
    done = assay("check", "--models", "mine.py", cwd=tmp_path)
    assert done.returncode == 2 and "a_package_that_is_not_there" in done.stdout


def test_without_torch_it_cannot_run_here(tmp_path):
    done = assay("check", "--models", "B", cwd=tmp_path, hide=["torch"])
    assert done.returncode == 3 and "torch" in done.stdout


def test_models_are_listed(tmp_path):
    done = assay("list", "models", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in done.stdout.splitlines()}
    assert lines["GPT2_MLA_KV"] == "check --models: MLA KV; step MLAKV"
    assert lines["random:llama"].startswith("capture: ")


def test_steps_are_listed(tmp_path):
    done = assay("list", "steps", cwd=tmp_path)
    assert done.returncode == 0
    assert any(line.split()[:2] == ["MLAKV2", "GPT2_MLA_KV2"] for line in done.stdout.splitlines())
    assert "half of its weights pruned in training" in done.stdout
