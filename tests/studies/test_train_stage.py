"""The stage train: arms of a study as cells, what refuses them, and kills at any moment."""

import os
import random
import signal
import time
from pathlib import Path

import pytest
from study_process import StudyProcess, wait_until

pytest.importorskip("torch")

from training_study import LONG, batches, of, settings, state

from assay.errors import BadInput
from assay.host import inspect
from assay.studies import kconfig, one_step
from assay.studies.stages import train

pytestmark = pytest.mark.early  # what they share takes long to set up


@pytest.fixture(scope="module")
def ran(text, tmp_path_factory) -> StudyProcess:
    study = StudyProcess(folder=tmp_path_factory.mktemp("train"))
    chosen = settings(text, MODELS="GPT2,GPT2_RA", TRAIN_SEEDS="0,1")
    assert study.run("models", "train", **chosen) == 0, study.stderr
    return study


def test_every_model_is_trained_with_every_seed(ran) -> None:
    assert set(ran.ends("train")) == {"GPT2/s0", "GPT2_RA/s0", "GPT2/s1", "GPT2_RA/s1"}
    for cell in ran.ends("train"):
        assert [r.data["step"] for r in of(ran, cell, "train_loss")] == list(range(2, 25, 2))
        assert [r.data["step"] for r in of(ran, cell, "val_loss")] == [0, 8, 16, 24]
        (end,) = of(ran, cell, "final_val_loss")
        assert end.data["stopped_by"] == "steps" and end.data["tokens"] == 24 * 4 * 16
        assert len(end.samples) == 3
        (power,) = of(ran, cell, "power_w")
        assert power.value is None and power.reason.startswith("unavailable")
    streams = {of(ran, cell, "final_val_loss")[0].data["eval_stream"] for cell in ran.ends("train")}
    assert len(streams) == 1


def test_the_run_has_the_keys_of_training(ran) -> None:
    run = ran.run_json
    assert (run.budget, run.batch, run.dataset, run.compiled) == (24 * 4 * 16, [4], "folder", False)
    assert run.accumulation is None and "final_val_loss" in run.reasons["accumulation"]


def test_the_report_compares_pairs(ran) -> None:
    report = (ran.run_folder.path / "report.md").read_text()
    assert "GPT2_RA against GPT2 over 2 seeds" in report
    assert "validation_loss" in report and "Against GPT2" in report


def test_nothing_is_trained_without_its_gates(text, tmp_path) -> None:
    study = StudyProcess(folder=tmp_path)
    study.run("train", **settings(text, MODELS="GPT2", TRAIN_SEEDS="0"))
    (refused,) = (r for r in study.records("train") if r.subject == "GPT2")
    assert refused.status == "refused" and "its gates were not run" in refused.reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"TRAIN_TOKENIZER": "byte", "TRAIN_VOCABULARY": 999}, "a vocabulary of 999"),
        ({"TRAIN_LEARNING_RATE": "1e30", "TRAIN_CLIP": "1e30"}, "try a lower"),
    ],
)
@pytest.mark.sampled
def test_what_ends_a_run_is_told_in_words(text, tmp_path, changes, words) -> None:
    study = StudyProcess(folder=tmp_path)
    chosen = settings(text, MODELS="GPT2", TRAIN_SEEDS="0", **changes)
    assert study.run("models", "train", **chosen) == 1
    (end,) = of(study, "GPT2/s0", "final_val_loss")
    assert end.status == "failed" and words in end.reason
    assert "Traceback" not in study.stderr


@pytest.mark.parametrize("place", ["", "nowhere"])
def test_data_that_is_not_there_is_refused_before_anything_is_run(place) -> None:
    study = kconfig.load(None, ["TRAIN_DATASET=folder", f"TRAIN_PLACE={place}", "MODELS=GPT2"])
    with pytest.raises(BadInput, match="TRAIN_PLACE"):
        train.cells(study)


def test_entries_that_cannot_be_meant_are_refused() -> None:
    for entry, words in (("TRAIN_SEEDS=1,1", "repeats"), ("TRAIN_CLIP=-1", "is not a number")):
        with pytest.raises(BadInput, match=words):
            kconfig.load(None, [entry])


@pytest.mark.slow
def test_one_step_covers_every_arm_with_its_data(text, tmp_path) -> None:
    chosen = settings(text, MODELS="GPT2,GPT2_MLA_KV", STAGES="models,train")
    study = kconfig.load(None, [f"{name}={value}" for name, value in chosen.items()])
    steps = [s for s in one_step.run(study, inspect(commit=False), tmp_path) if s.stage == "train"]
    assert [(s.subject, s.status) for s in steps] == [("GPT2", "ok"), ("GPT2_MLA_KV", "ok")]
    assert {cell.options["steps"] for s in one_step.steps(study, tmp_path)
            for cell in s.cells if s.stage == "train"} == {1}  # fmt: skip
    assert len(train.cells(study)) == 6


def kill_and_resume(study: StudyProcess, text: Path, *, kills: int) -> None:
    """Kill all processes again and again, each time some batches further on. Where steps are fast
    it may be through before the last kill."""
    chosen = settings(text, MODELS="GPT2", TRAIN_SEEDS="0", TRAIN_STEPS=LONG)
    draw, arguments = random.Random(kills), study.run_arguments("models", "train", **chosen)
    for number in range(kills):
        process, beyond = study.start(*arguments), batches(study) + draw.randint(1, 5)
        wait_until(lambda p=process, n=beyond: p.poll() is not None or batches(study) >= n, "it")
        if process.poll() is not None:
            assert process.returncode == 0 and number > kills // 3, study.stderr
            break
        time.sleep(draw.uniform(0, 0.2))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        arguments = ["resume", "--trust-plugins"]
    assert study.resume() == 0, study.stderr


@pytest.fixture(scope="module")
def whole(text, tmp_path_factory) -> StudyProcess:
    study = StudyProcess(folder=tmp_path_factory.mktemp("whole"))
    chosen = settings(text, MODELS="GPT2", TRAIN_SEEDS="0", TRAIN_STEPS=LONG)
    assert study.run("models", "train", **chosen) == 0, study.stderr
    return study


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_the_same_bits(whole, text, tmp_path) -> None:
    study = StudyProcess(folder=tmp_path)
    kill_and_resume(study, text, kills=8)
    wanted, got = state(whole, "GPT2/s0"), state(study, "GPT2/s0")
    assert got.step == LONG and got.weights_digest == wanted.weights_digest
    assert got.optimizer_digest == wanted.optimizer_digest
    for metric in ("train_loss", "val_loss", "final_val_loss"):
        values = [[r.value for r in of(s, "GPT2/s0", metric)] for s in (whole, study)]
        assert values[0] == values[1]
