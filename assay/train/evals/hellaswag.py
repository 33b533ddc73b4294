"""HellaSwag: which of four endings goes on with a text, from a local JSONL file of its form.

Zellers et al. 2019. The ending is fed after the context and scored by the sum of its tokens'
log-likelihoods, plain, for each character and for each token. The text is cleaned as published
harnesses do: marks of WikiHow in brackets are taken out.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import BadInput
from assay.train.eval_score import FEW, EvalScore, standard_error
from assay.train.evals._questions import ENOUGH, best, constant_choice

if TYPE_CHECKING:
    from assay.train.text_model import TextModel

ENDINGS = 4
_TEXTS = ("activity_label", "ctx", "ctx_a", "ctx_b", "split_type")
_FIELDS = ("ind", *_TEXTS, "endings", "label")
_MARK = re.compile(r"\[.*?\]")
_SCORES = {
    "accuracy": "the ending with the largest log-likelihood",
    "accuracy_norm": "the ending with the largest log-likelihood for each character",
    "accuracy_token_norm": "the ending with the largest log-likelihood for each token",
}


@dataclass(frozen=True, kw_only=True)
class Question:
    """A context, four endings of it, and the number of the right one."""

    ident: int
    context: str
    endings: tuple[str, ...]
    label: int


def check(file: str) -> None:
    """Refuse a file that is not of HellaSwag's form."""
    read(file)


def score(model: "TextModel", file: str) -> Iterator[EvalScore]:
    """Yield the three accuracies, and the log-likelihood of the right ending."""
    from assay.train.text_model import request_of, score_tokens

    questions, digest = read(file)
    requests = [
        request_of(model, question.context, f" {ending}")
        for question in questions
        for ending in question.endings
    ]
    scores = score_tokens(model, requests)
    groups = [scores[first : first + ENDINGS] for first in range(0, len(scores), ENDINGS)]
    totals = [[each.total for each in group] for group in groups]
    tokens = [[len(each.log_likelihoods) for each in group] for group in groups]
    characters = [[len(ending) for ending in question.endings] for question in questions]
    about = {"items": len(questions), "digest": digest, "details": _cut(groups)}
    plain = [[1] * ENDINGS for _ in questions]
    for name, lengths in zip(_SCORES, (plain, characters, tokens), strict=True):
        yield _accuracy(name, questions, totals, best(totals, lengths), about)
    right = [total[question.label] for total, question in zip(totals, questions, strict=True)]
    yield EvalScore(
        name="log_likelihood", value=sum(right) / len(right), unit="nats", samples=right,
        error=standard_error(right), why_no_error=FEW if len(right) < 2 else None,
        better="higher", source="of the right ending, mean over questions", items=len(right),
        digest=digest, details={**about["details"], "log_likelihoods": totals, "tokens": tokens},
    )  # fmt: skip


def _accuracy(
    name: str,
    questions: Sequence[Question],
    totals: Sequence[Sequence[float]],
    choices: Sequence[int],
    about: dict[str, Any],
) -> EvalScore:
    right = [float(c == q.label) for c, q in zip(choices, questions, strict=True)]
    failure = constant_choice(choices, totals, [question.label for question in questions])
    return EvalScore(
        name=name,
        value=None if failure else sum(right) / len(right),
        unit="share",
        samples=right,
        error=None if failure else standard_error(right),
        why_no_error=failure or (FEW if len(right) < 2 else None),
        better="higher",
        source=f"{_SCORES[name]} is the right one",
        failure=failure,
        **{**about, "details": {**about["details"], "choices": list(choices)}},
    )


def _cut(groups: Sequence[Sequence[Any]]) -> dict[str, int]:
    """Questions whose context lost its beginning, and the tokens that the worst of them lost."""
    worst = [max(each.cut for each in group) for group in groups]
    return {"cut_questions": sum(cut > 0 for cut in worst), "most_cut_tokens": max(worst)}


def read(file: str) -> tuple[list[Question], str]:
    """The questions of a file and the digest of its bytes; the first line that is not of the form
    is refused by its number."""
    try:
        content = Path(file).read_bytes()
        lines = content.decode("utf-8").split("\n")
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror}; give a JSONL file") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{file} is not UTF-8 ({error.reason}); give a JSONL file") from error
    questions: dict[int, Question] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        question = _question(line, f"{file}, line {number}")
        if question.ident in questions:
            raise BadInput(
                f"{file}, line {number}: ind {question.ident} stands there a second time; each "
                "question must be there once"
            )
        questions[question.ident] = question
    if not questions:
        raise BadInput(f"{file} holds no question; wanted a JSON object in each line")
    labels = {question.label for question in questions.values()}
    if len(questions) >= ENOUGH and len(labels) == 1:
        raise BadInput(
            f"{file}: the right answer is {labels.pop()} in all {len(questions)} questions, so "
            "that a model that always takes it would be perfect; give questions in any order"
        )
    return list(questions.values()), f"sha256:{hashlib.sha256(content).hexdigest()}"


def _question(line: str, place: str) -> Question:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BadInput(f"{place} is no JSON ({error}); wanted an object in each line") from error
    if not isinstance(row, dict) or (absent := [name for name in _FIELDS if name not in row]):
        lacking = ", ".join(absent) if isinstance(row, dict) else "everything, for it is no object"
        raise BadInput(f"{place} lacks {lacking}; a question of HellaSwag has {', '.join(_FIELDS)}")
    if wrong := [name for name in _TEXTS if not isinstance(row[name], str)]:
        raise BadInput(f"{place}: {', '.join(wrong)} must be text")
    if type(row["ind"]) is not int:
        raise BadInput(f"{place}: ind is {row['ind']!r}; wanted a whole number")
    endings = row["endings"]
    if (
        not isinstance(endings, list)
        or len(endings) != ENDINGS
        or not all(isinstance(ending, str) and cleaned(ending) for ending in endings)
    ):
        raise BadInput(f"{place}: endings must be {ENDINGS} texts, none of them empty")
    context = f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}"
    return Question(
        ident=row["ind"],
        context=cleaned(context),
        endings=tuple(cleaned(ending) for ending in endings),
        label=_label(row["label"], place),
    )


def _label(label: Any, place: str) -> int:
    """The number of the right ending, which some copies of the data write as text."""
    numbers = {str(number): number for number in range(ENDINGS)}
    if type(label) in (int, str) and str(label) in numbers:
        return numbers[str(label)]
    hint = "; the test part has no labels, so take the validation part" if label == "" else ""
    raise BadInput(f"{place}: label is {label!r}; wanted 0 to {ENDINGS - 1}{hint}")


def cleaned(text: str) -> str:
    """A text without the marks of WikiHow: [title] ends a sentence, other brackets vanish."""
    text = text.strip().replace(" [title]", ". ")
    return _MARK.sub("", text).replace("  ", " ")
