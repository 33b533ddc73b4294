"""`assay train`: its exit codes, and a quick try."""

import pytest
from command_line import assay

from assay.records.run import RunFolder, read_done

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
    planned = assay("train", "GPT2", *hub, *SETS, "--dry-run", cwd=tmp_path, hide=("datasets",))
    assert "datasets/tinystories needs datasets, not installed here" in planned.stderr


def test_a_study_that_trained_nothing_is_incomplete(tmp_path):
    """On a machine without its GPU a study skipped 57 of 57 trainings, passed and exited with 0,
    with --continue and in a dry run too; `verify` called the same run never trained."""
    absent = [*SMALL[:-1], "MODELS=GPT2", "TRAIN_SEEDS=0,1", "DEVICE_CUDA=y", "DEVICE_INDEX=15"]
    chosen = [word for entry in absent for word in ("--set", entry)]
    line = "INCOMPLETE  unnamed: never trained: 2 of 2 cells: there is no device cuda:15 here"
    for more in ([], ["--continue"]):
        done = assay("study", "run", *chosen, *more, cwd=tmp_path)
        assert done.returncode == 3, done.stdout + done.stderr
        assert done.stdout.startswith(line)
    (folder,) = (tmp_path / "results" / "unnamed").iterdir()
    ended = read_done(RunFolder(path=folder), "train")
    assert ended.status == "skipped" and ended.reason.startswith("never trained: 2 of 2 cells")
    status = assay("study", "status", cwd=tmp_path)
    assert "1 of 3 cells done; never trained: 2 of 2 cells" in status.stdout
    assert "never trained: GPT2/s0, GPT2/s1" in assay("verify", folder, cwd=tmp_path).stdout
    step = assay("study", "run", "--one-step", *chosen, cwd=tmp_path)
    assert step.returncode == 3
    *_, last = step.stdout.splitlines()
    assert last.startswith("INCOMPLETE  one step of unnamed: 1 ok, 0 failed, 1 cannot run here")
    assert last.endswith("; skipped: train")


def test_what_is_not_there_is_refused_at_once(tmp_path):
    done = assay("train", "GPT2", "--dataset", "folder", cwd=tmp_path)
    assert done.returncode == 2 and "assay train --place PATH" in done.stderr
