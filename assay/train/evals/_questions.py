"""Questions with several answers: which answer a model takes, and whether it read them at all."""

from collections.abc import Sequence
from typing import Any

import numpy as np

ENOUGH = 8  # questions from which on the same answer to all of them is no chance
_EQUAL = 1e-6  # nats


def constant_choice(
    choices: Sequence[int], likelihoods: Sequence[Sequence[float]], labels: Sequence[Any]
) -> str | None:
    """The reason why choices are no answers, None where they may be: the likelihoods do not depend
    on the answer, or the same place is taken in every question, though other ones are right."""
    equal = sum(max(each) - min(each) <= _EQUAL for each in likelihoods)
    if 2 * equal > len(likelihoods):
        return (
            f"all answers are equally likely in {equal} of {len(likelihoods)} questions: the "
            "likelihoods do not depend on the answer, so that any score is that of the order"
        )
    if len(choices) >= ENOUGH and len(set(choices)) == 1 and len(set(labels)) > 1:
        return (
            f"answer {choices[0]} is taken in all {len(choices)} questions: the score is the "
            "share of questions in which that is right, and says nothing of the model"
        )
    return None


def best(likelihoods: Sequence[Sequence[float]], lengths: Sequence[Sequence[float]]) -> list[int]:
    """The likeliest answer to each question, likelihoods divided by lengths."""
    pairs = zip(likelihoods, lengths, strict=True)
    return [int(np.argmax(np.array(each) / np.array(sizes))) for each, sizes in pairs]
