"""Tasks of lm-eval on our models, through the package itself; skipped where it is not installed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("lm_eval", reason="lm-eval is not installed: pip install 'assay[evals]'")

from assay.errors import BadInput, CannotRunHere
from assay.models.pretrained import catalog
from assay.train.evals import hellaswag, lm_eval
from assay.train.evaluated_models import of_pretrained
from assay.train.lm_eval_model import LmEvalModel

QUESTIONS = Path(__file__).parent / "hellaswag_questions.jsonl"
OPTIONS = {"limit": 0, "bootstrap": 100}
HELLASWAG = """\
include: {hellaswag}
task: local_hellaswag
dataset_path: json
dataset_kwargs: {{data_files: {{validation: {file}}}}}
training_split: null
"""
GENERAL = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: {kind}
doc_to_text: "{text}"
doc_to_target: "{{{{answer}}}}"
"""


@pytest.fixture(scope="module")
def model():
    return replace(of_pretrained(catalog.open_model("random:llama")), start=0)


@pytest.fixture
def own_task(tmp_path) -> str:
    """lm-eval's own hellaswag task, its functions with it, on our questions."""
    import lm_eval as package

    own = Path(package.__file__).parent / "tasks/hellaswag/hellaswag.yaml"
    file = tmp_path / "task.yaml"
    file.write_text(HELLASWAG.format(hellaswag=own, file=QUESTIONS))
    return str(file)


def general(folder: Path, kind: str, text: str, extra: str = "") -> str:
    rows = [{"question": f"{n} and {n} is", "answer": str(2 * n), "label": n % 3} for n in range(6)]
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = folder / f"{kind}.yaml"
    filled = GENERAL.format(name=f"own_{kind}", file=data, kind=kind, text=text)
    file.write_text(filled + extra)
    return str(file)


def test_its_own_hellaswag_is_ours(model, own_task):
    theirs = {score.name: score for score in lm_eval.score(model, own_task, **OPTIONS)}
    ours = {score.name: score for score in hellaswag.score(model, str(QUESTIONS))}
    for name, other in (("accuracy", "acc"), ("accuracy_norm", "acc_norm")):
        score = theirs[f"local_hellaswag.{other}"]
        assert score.value == ours[name].value and score.better == "higher"
        assert list(score.samples) == list(ours[name].samples)
        assert score.error == pytest.approx(ours[name].error)
        assert score.items == 40 and score.digest.startswith("sha256:")


def test_a_model_that_does_not_read_the_answers_fails(model, tmp_path):
    """Uniform logits: answers of one length are equally likely, and the first would be taken."""
    choices = 'doc_to_choice: ["aa", "bb", "cc"]\nmetric_list: [{metric: acc}]\n'
    file = general(tmp_path, "multiple_choice", "{{question}}", choices)
    Path(file).write_text(Path(file).read_text().replace("{{answer}}", "{{label}}"))
    blind = replace(model, logits=lambda tokens: torch.zeros(*tokens.shape, 256))
    (score,) = lm_eval.score(blind, file, **OPTIONS)
    assert score.value is None and "equally likely in 6 of 6" in score.failure
    (score,) = lm_eval.score(model, file, **OPTIONS)
    assert score.value is not None and score.items == 6


def test_texts_are_generated_and_whole_texts_scored(model, tmp_path):
    until = 'generation_kwargs: {until: ["x"], max_gen_toks: 4, do_sample: false}\n'
    metric = "metric_list: [{metric: exact_match}]\n"
    file = general(tmp_path, "generate_until", "{{question}}", until + metric)
    (score,) = lm_eval.score(model, file, **OPTIONS)
    assert score.value == 0.0 and score.items == 6
    drawn = until.replace("do_sample: false", "do_sample: true, temperature: 0.7")
    file = general(tmp_path, "generate_until", "{{question}}", drawn + metric)
    with pytest.raises(BadInput, match="only the likeliest text"):
        list(lm_eval.score(model, file, **OPTIONS))
    metric = "metric_list: [{metric: bits_per_byte}]\n"
    file = general(tmp_path, "loglikelihood_rolling", "", metric)
    (score,) = lm_eval.score(model, file, **OPTIONS)
    assert 7 < score.value < 9  # 8 bits: the weights are random


def test_whole_texts_in_windows_are_those_of_perplexity(model):
    from lm_eval.api.instance import Instance

    from assay.train.evals.perplexity import window_losses

    text, short = "a text that is longer than the model reads. " * 5, replace(model, length=32)
    request = Instance("loglikelihood_rolling", {}, (text,), 0)
    (total,) = LmEvalModel(short).loglikelihood_rolling([request])
    # Its last window has more context; every other is ours.
    tokens = short.encode(text)
    losses = window_losses(short, tokens, start=True)
    whole = len(tokens) // 32 * 32
    assert sum(map(len, losses)) == len(tokens)
    last = window_losses(short, tokens[len(tokens) - 33 :], start=False)[0][whole - len(tokens) :]
    expected = sum(float(each.sum()) for each in losses[:-1]) + float(last.sum())
    assert -total == pytest.approx(expected, rel=1e-4)


def test_data_that_is_not_here_is_not_fetched(model, own_task, tmp_path):
    import os

    before = os.environ.get("HF_HUB_OFFLINE")
    file = tmp_path / "hub.yaml"
    file.write_text("task: hub_task\ndataset_path: owner/none\noutput_type: multiple_choice\n")
    with pytest.raises(CannotRunHere, match="is not on this machine"):
        next(lm_eval.score(model, str(file), **OPTIONS))
    assert os.environ.get("HF_HUB_OFFLINE") == before
    file.write_text("a: [b\n")
    with pytest.raises(BadInput, match="no task that lm-eval can read"):
        next(lm_eval.score(model, str(file), **OPTIONS))
