"""Needle retrieval: a number that stands once in a text, asked for at its end.

The answer is scored as it would be decoded greedily: retrieved where every token of it is the most
likely one after those before it. It hides damage (a cache may lose much and keep a needle), so it
stands beside the loss and never for it.

N needles, T tokens of a window.
"""

import random
from dataclasses import dataclass

import torch

from assay.quality.readers import Reader
from assay.quality.scoring import is_by_token, read_text

_NEEDLE = "\n\nThe pass key is {key}. Remember it: {key} is the pass key.\n\n"
_QUESTION = "\n\nWhat is the pass key? The pass key is"
_SEED = 20


@dataclass(frozen=True, kw_only=True)
class Haystacks:
    """Texts with a needle each, [N, T], and how many tokens at the end of each are the answer."""

    ids: torch.Tensor
    answers: list[int]


def haystacks(reader: Reader, text_ids: list[int], *, needles: int, window: int) -> Haystacks:
    """Return windows of the text, each with a number at another depth and the question for it."""
    draw = random.Random(_SEED)
    rows, answers = [], []
    for index in range(needles):
        key = f"{draw.randrange(10**4, 10**5)}"
        needle = reader.token_ids(_NEEDLE.format(key=key))
        question = reader.token_ids(_QUESTION)
        answer = reader.token_ids(f" {key}")
        room = window - len(needle) - len(question) - len(answer)
        start = draw.randrange(max(1, len(text_ids) - room))
        hay = text_ids[start : start + room]
        depth = len(hay) * index // needles
        rows.append([*hay[:depth], *needle, *hay[depth:], *question, *answer])
        answers.append(len(answer))
    return Haystacks(ids=torch.tensor(rows), answers=answers)


@torch.no_grad()
def retrieved(reader: Reader, layout: str, stacks: Haystacks, *, residual: int = 0) -> list[bool]:
    """Return for each needle whether its number was retrieved through the cache."""
    by_steps = not is_by_token(layout, residual)
    right = []
    for ids, length in zip(stacks.ids.split(1), stacks.answers, strict=True):
        logits, _ = read_text(reader, layout, ids, residual=residual, by_steps=by_steps)
        choices = logits[0, -length - 1 : -1].argmax(-1).cpu()
        right.append(bool((choices == ids[0, -length:]).all()))
    return right
