"""Evals in studies: at the end of a training run, without one, and what is refused before."""

import dataclasses
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from msgspec.structs import replace
from training_study import SMALL

from assay.errors import BadInput
from assay.records.schema import Measurement, Run
from assay.studies import kconfig, session
from assay.studies.stages import evals, train

QUESTIONS = Path(__file__).parents[1] / "train/hellaswag_questions.jsonl"
TEXT = "a head reads keys and values of its own " * 20


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    for number in range(30):
        (folder / f"{number}.txt").write_text(f"{number} {TEXT}")
    return folder


def study(text: Path, **changes):
    chosen = {
        **SMALL, "MODELS": "GPT2", "TRAIN_SEEDS": "0", "TRAIN_STEPS": 2, "TRAIN_PLACE": text,
        "TRAIN_DATA_FOLDER": text.parent / "prepared", "TRAIN_SAVE_EVERY": 2,
        "TRAIN_EVALUATE_EVERY": 2, **changes,
    }  # fmt: skip
    return kconfig.load(None, [f"{symbol}={value}" for symbol, value in chosen.items()])


def measured(stage, cell) -> dict[str, Measurement]:
    return {m.metric: m for m in stage.run(cell) if isinstance(m, Measurement)}


def test_a_run_ends_with_its_evals_and_one_that_fails_harms_none(text, tmp_path):
    """The questions are longer than the 16 tokens that the model reads: that eval fails."""
    file = text / "0.txt"
    chosen = study(text, TRAIN_EVALS=f"hellaswag+file={QUESTIONS},perplexity+file={file}")
    (cell,) = train.cells(chosen)
    records = measured(train, cell)
    assert records["final_val_loss"].value
    loss = records["eval.perplexity.loss"]
    assert loss.subject == "GPT2" and len(loss.samples) == loss.data["items"] > 10
    assert loss.data["state"] == {"weights": "those of the last step", "step": 2}
    assert loss.data["seed"] == 0 and loss.data["standard_error"] > 0
    assert records["eval.perplexity.perplexity"].value > 1
    refused = records["eval.hellaswag"]
    assert refused.status == "failed" and "reads 16" in refused.reason


def test_an_eval_that_crashes_leaves_what_was_trained(text, tmp_path):
    file = tmp_path / "broken.py"
    file.write_text('"""Fails."""\nNEEDS_PLACE = False\ndef score(model, file): 1 / 0\n')
    (cell,) = train.cells(study(text, TRAIN_EVALS=file))
    records = measured(train, dataclasses.replace(cell, plugin_folders=(file,)))
    assert records["final_val_loss"].value
    assert records["eval.broken"].status == "failed"
    assert records["eval.broken"].reason == "ZeroDivisionError: division by zero"


def test_data_that_cannot_be_scored_is_refused_before_training(text, tmp_path):
    for entry, words in (
        ("hellaswag", "give a local file"),
        ("hellaswag+file=nowhere.jsonl", "there is no file nowhere.jsonl"),
        (f"hellaswag+file={text / '0.txt'}", "line 1 is no JSON"),
    ):
        with pytest.raises(BadInput, match=words):
            train.cells(study(text, TRAIN_EVALS=entry))
    for entry, words in (
        ("perplexity+windows=3", "sets no option"),
        ("perplexity+window=x", "cannot be read"),
        ("perplexity+label=a/b", "is no name"),
        ("perplexity+file=a,perplexity+file=b", "label=wiki"),
        ("accuracy", "there is no eval 'accuracy'"),
    ):
        with pytest.raises(BadInput, match=words):
            study(text, TRAIN_EVALS=entry)


def test_models_are_scored_without_training(text):
    file = text / "0.txt"
    entries = f"perplexity+file={file}+start=False+label=own"
    chosen = study(text, TRAIN_EVALS=entries, EVAL_MODELS="random:llama,random:gpt2")
    cells = evals.cells(chosen)
    assert [cell.name for cell in cells] == ["random:llama", "random:gpt2"]
    records = measured(evals, cells[0])
    assert records["eval.own.loss"].subject == "random:llama"
    assert records["eval.own.loss"].data["state"]["weights"].startswith("sha256:")
    before = cells[0].options["files"]
    file.write_text(file.read_text() + "and more")
    assert evals.cells(chosen)[0].options["files"] != before  # measured again on other data


def test_models_that_are_none_are_refused(text, tmp_path):
    entries = f"perplexity+file={text / '1.txt'}"
    for model, words in (
        ("", "EVAL_MODELS is empty"),
        ("best.safetensors", "has no tokenizer"),
        (str(tmp_path), r"config\.json"),
    ):
        with pytest.raises(BadInput, match=words):
            evals.cells(study(text, TRAIN_EVALS=entries, EVAL_MODELS=model))
    (cell,) = evals.cells(study(text, TRAIN_EVALS=entries, EVAL_MODELS="nobody"))
    records = measured(evals, cell)
    assert records["eval"].status == "failed" and "no model 'nobody'" in records["eval"].reason


@pytest.mark.parametrize(
    ("symbol", "entry"),
    [
        ("TRAIN_EVALS", "lm_eval+file={task}"),
        ("TRAIN_EVALS", "perplexity+file=a.txt,lm_eval+label=x+file={task}+limit=3"),
        ("TRAIN_OPTIMIZERS", "{code}+rate=2.0"),
    ],
)
def test_a_run_does_not_bring_code_along(tmp_path, symbol, entry):
    """A task's file names functions, and an optimizer's file with options is code too: a run that
    somebody else made is not resumed with them unless they are trusted."""
    task, code = tmp_path / "task.yaml", tmp_path / "evil.py"
    task.write_text("task: x\n")
    code.write_text("def make(model, settings): raise SystemExit(1)\n")
    usual = kconfig.load(None).config
    config = {**usual, symbol: f'"{entry.format(task=task, code=code)}"'}
    run = Run(schema=1, run="r", study="s", config=usual, sessions=[], plugins=[], reasons={})
    foreign = replace(run, config=config)
    with pytest.raises(BadInput, match="names code that is not part of assay"):
        session.study_of(foreign)
    assert session.study_of(run).train_evals == ()
    assert session.study_of(foreign, trust=True).config[symbol] == config[symbol]
