"""`assay train`: its exit codes, and a quick try."""

import pytest
from command_line import assay

pytest.importorskip("torch")

SMALL = ["TRAIN_LAYERS=1", "TRAIN_HEADS=1", "TRAIN_WIDTH=16", "TRAIN_LENGTH=16", "TRAIN_BATCH=2",
         "TRAIN_WINDOWS=2", "STAGES=models,train", "DEVICE_CPU=y"]  # fmt: skip
SETS = [word for entry in SMALL for word in ("--set", entry)]


@pytest.mark.slow
def test_one_step_is_a_quick_try(tmp_path):
    (tmp_path / "text").mkdir()
    for number in range(20):
        (tmp_path / "text" / f"{number}.txt").write_text(f"{number} keys and values " * 20)
    arguments = ["GPT2", "--steps", "1", "--seeds", "0", "--dataset", "folder", "--place", "text"]
    done = assay("train", *arguments, "--tokenizer", "byte", *SETS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Training" in done.stdout and "GPT2" in done.stdout and "perplexity" in done.stdout


def test_data_that_cannot_be_had_here_is_no_success(tmp_path):
    """A study of which every arm was skipped called itself done once, with exit code 0."""
    hub = ["--dataset", "tinystories", "--seeds", "0", "--steps", "1"]
    done = assay("train", "GPT2", *hub, *SETS, cwd=tmp_path, hide=("datasets",))
    assert done.returncode == 3 and "tinystories" in done.stdout


def test_what_is_not_there_is_refused_at_once(tmp_path):
    done = assay("train", "GPT2", "--dataset", "folder", cwd=tmp_path)
    assert done.returncode == 2 and "assay train --place PATH" in done.stderr
