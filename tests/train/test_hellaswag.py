"""HellaSwag: its file's form, its scoring written out a second time, and models that do not read.

The detectors tell the story of a table with 23.0 % in eight cells: the model was fed the context
without the endings, so that all four were equally likely and the first was taken every time.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from assay.errors import BadInput
from assay.models.pretrained import catalog
from assay.train.evals import hellaswag
from assay.train.evals._questions import constant_choice
from assay.train.evaluated_models import of_pretrained

QUESTIONS = Path(__file__).parent / "hellaswag_questions.jsonl"
ROWS = [json.loads(line) for line in QUESTIONS.read_text().splitlines()]


@pytest.fixture(scope="module")
def model():
    return of_pretrained(catalog.open_model("random:llama"))


@pytest.fixture(scope="module")
def scores(model):
    return {score.name: score for score in hellaswag.score(model, str(QUESTIONS))}


def written(folder: Path, rows) -> str:
    file = folder / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def likelihood(model, context: str, ending: str) -> float:
    """The plain way: one sequence, no batch, a token at a time, in float64."""
    tokens = model.encode(context + " " + ending)
    first = len(model.encode(context))
    logits = model.logits(torch.tensor([tokens]))[0].double()
    return sum(
        float(logits[place - 1].log_softmax(-1)[tokens[place]])
        for place in range(first, len(tokens))
    )


def test_every_ending_is_fed_after_its_context(model, scores):
    for row, totals in list(
        zip(ROWS, scores["log_likelihood"].details["log_likelihoods"], strict=True)
    )[::9]:
        context = f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}"
        expected = [
            likelihood(model, hellaswag.cleaned(context), hellaswag.cleaned(ending))
            for ending in row["endings"]
        ]
        assert totals == pytest.approx(expected, abs=1e-3)


def test_three_ways_to_choose_and_their_errors(scores):
    totals = np.array(scores["log_likelihood"].details["log_likelihoods"])
    tokens = np.array(scores["log_likelihood"].details["tokens"])
    characters = np.array([[len(hellaswag.cleaned(e)) for e in row["endings"]] for row in ROWS])
    labels = np.array([row["label"] for row in ROWS])
    for name, lengths in (
        ("accuracy", 1), ("accuracy_norm", characters), ("accuracy_token_norm", tokens)
    ):  # fmt: skip
        right = ((totals / lengths).argmax(1) == labels).astype(float)
        score = scores[name]
        assert score.value == right.mean() and list(score.samples) == list(right)
        assert score.error == pytest.approx(right.std(ddof=1) / len(ROWS) ** 0.5)
        assert score.items == 40 and score.digest.startswith("sha256:") and not score.failure
    assert (tokens == characters + 1).all()  # bytes, and the space before an ending


def test_marks_of_wikihow_are_taken_out():
    text = "[header] How to boil an egg [title] Fill a pot. [step] Wait. "
    assert hellaswag.cleaned(text) == " How to boil an egg. Fill a pot. Wait."
    assert not any("[" in q.context for q in hellaswag.read(str(QUESTIONS))[0])


def test_a_model_that_does_not_read_the_ending_has_no_score(model, tmp_path):
    """Uniform logits: all endings of one length are equally likely."""
    row = {**ROWS[0], "endings": ["aaaa", "bbbb", "cccc", "dddd"]}
    rows = [{**row, "ind": number, "label": number % 4} for number in range(12)]
    blind = replace(model, logits=lambda tokens: torch.zeros(*tokens.shape, 256))
    for score in hellaswag.score(blind, written(tmp_path, rows)):
        if score.name.startswith("accuracy"):
            assert score.value is None and "equally likely in 12 of 12" in score.failure


def test_the_same_answer_to_every_question_has_no_score():
    spread = [[-1.0, -2.0, -3.0, -4.0]] * 8
    labels = [0, 1, 2, 3, 0, 1, 2, 3]
    assert "answer 0 is taken in all 8" in constant_choice([0] * 8, spread, labels)
    assert constant_choice([0] * 7 + [1], spread, labels) is None
    assert constant_choice([0] * 7, spread[:7], labels[:7]) is None  # too few to tell
    assert constant_choice([0] * 8, spread, [0] * 8) is None  # a perfect model looks the same


def test_a_long_context_loses_its_beginning_and_is_counted(model):
    short = replace(model, length=130)
    score = next(hellaswag.score(short, str(QUESTIONS)))
    longest = max(
        len(f"{question.context} {ending}") - 1
        for question in hellaswag.read(str(QUESTIONS))[0]
        for ending in question.endings
    )
    assert 0 < score.details["cut_questions"] < 40
    assert score.details["most_cut_tokens"] == longest - 130
    with pytest.raises(BadInput, match=r"a continuation has .* tokens, random:llama reads 16"):
        list(hellaswag.score(replace(model, length=16), str(QUESTIONS)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"label": 4}, "line 2: label is 4; wanted 0 to 3"),
        ({"label": ""}, "the test part has no labels"),
        ({"label": True}, "label is True"),
        ({"endings": ["a", "b"]}, "endings must be 4 texts"),
        ({"endings": ["a", "b", "c", "[x]"]}, "endings must be 4 texts"),
        ({"ind": ROWS[0]["ind"]}, "stands there a second time"),
        ({"ind": "x"}, "ind is 'x'"),
        ({"ctx_b": None}, "ctx_b must be text"),
    ],
)
def test_a_line_of_another_form_is_refused_by_its_number(tmp_path, changes, words):
    with pytest.raises(BadInput, match=r"questions\.jsonl, line 2") as refusal:
        hellaswag.read(written(tmp_path, [ROWS[0], {**ROWS[1], **changes}]))
    assert words in str(refusal.value)


def test_files_that_are_no_questions(tmp_path):
    other = {name: ROWS[0][name] for name in ("ctx", "endings")}
    with pytest.raises(BadInput, match="line 1 lacks ind, activity_label, ctx_a"):
        hellaswag.read(written(tmp_path, [other]))
    with pytest.raises(BadInput, match="lacks everything"):
        hellaswag.read(written(tmp_path, [[1, 2]]))
    with pytest.raises(BadInput, match="holds no question"):
        hellaswag.read(written(tmp_path, []))
    with pytest.raises(BadInput, match="the right answer is 0 in all 8"):
        hellaswag.read(written(tmp_path, [{**ROWS[0], "ind": n} for n in range(8)]))
    (tmp_path / "broken.jsonl").write_bytes(b"\xff{}")
    with pytest.raises(BadInput, match="is not UTF-8"):
        hellaswag.read(str(tmp_path / "broken.jsonl"))
    assert hellaswag.read(written(tmp_path, [{**ROWS[0], "label": "3"}]))[0][0].label == 3
