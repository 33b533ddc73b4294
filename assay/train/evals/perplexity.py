"""Perplexity of a local text: every token scored once, in windows that do not depend on the batch.

A window reads `window` tokens (0: as many as the model can) and scores those behind the first
`context` of them, which the window before has scored. The text's first token is predicted from the
model's start token; with start=False it is read and not scored.
"""

import hashlib
from collections.abc import Iterator, Sequence
from math import exp, log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import BadInput
from assay.train.documents import read_text
from assay.train.eval_score import EvalScore

if TYPE_CHECKING:
    import numpy as np

    from assay.train.text_model import TextModel, TokenRequest

OPTIONS = {"window": 0, "context": 1, "start": True}
_SINGLE = "a single window has no standard error; give a longer text or shorter windows"
_LARGEST = 700.0  # nats; the perplexity of a larger loss is beyond a float


def check(file: str, **options: Any) -> None:
    """Refuse a file that is no text."""
    if not read_text(Path(file)):
        raise BadInput(f"{file} is empty; give a text")


def score(
    model: "TextModel", file: str, *, window: int, context: int, start: bool
) -> Iterator[EvalScore]:
    """Yield the loss for each token, its perplexity, and the bits for each byte of the text."""
    check(file)
    text = read_text(Path(file))
    tokens = model.encode(text)
    losses = window_losses(model, tokens, window=window, context=context, start=start)
    sums, counts = [float(each.sum()) for each in losses], [len(each) for each in losses]
    total, count = sum(sums), sum(counts)
    mean, error = total / count, _error(sums, counts)
    about: dict[str, Any] = {
        "items": len(losses),
        "better": "lower",
        "digest": _digest(repr((tokens, window or model.length, context, start))),
        "why_no_error": None if error is not None else _SINGLE,
        "details": {
            "tokens": count, "window": window or model.length, "context": context,
            "first_token": "scored" if start else "read only", "window_tokens": counts,
            "text": _digest(text),
        },
    }  # fmt: skip
    means = [part / own for part, own in zip(sums, counts, strict=True)]
    source = "mean over tokens, each scored once; an item is a window, its sample the mean in it"
    yield EvalScore(
        name="loss", value=mean, unit="nats", error=error, samples=means, source=source, **about
    )
    if mean < _LARGEST:
        spread = None if error is None else exp(mean) * error
        source = "e to the power of the loss, the error by its slope"
        yield EvalScore(
            name="perplexity", value=exp(mean), unit="1", error=spread, source=source, **about
        )
    if start:
        share = 1 / (log(2) * len(text.encode()))
        spread = None if error is None else error * count * share
        source = "the loss of the whole text over its bytes: the same for every tokenizer"
        yield EvalScore(
            name="bits_per_byte", value=total * share, unit="bits", error=spread, source=source,
            **{**about, "digest": _digest(text)},
        )  # fmt: skip


def window_losses(
    model: "TextModel", tokens: Sequence[int], *, window: int = 0, context: int = 1, start: bool
) -> "list[np.ndarray]":
    """The losses of all tokens, in nats, a list of windows; without `start`, of all but the
    first."""
    from assay.train.text_model import score_tokens

    requests = list(_requests(model, tokens, window or model.length, context, start))
    return [-each.log_likelihoods for each in score_tokens(model, requests)]


def _requests(
    model: "TextModel", tokens: Sequence[int], window: int, context: int, start: bool
) -> "Iterator[TokenRequest]":
    from assay.train.text_model import TokenRequest, started

    if not 1 <= context <= window <= model.length:
        raise BadInput(
            f"windows of {window} tokens with {context} of context for {model.name}, which reads "
            f"{model.length}; wanted 1 <= context <= window <= {model.length}"
        )
    whole = [started(model), *tokens] if start else list(tokens)
    if len(whole) < 2:
        raise BadInput(f"a text of {len(tokens)} tokens has none to score; give a longer text")
    step = window - context + 1  # the last token that is scored is not read
    for first in range(1, len(whole), step):
        before = whole[max(0, first - context) : first]
        yield TokenRequest(context=before, continuation=whole[first : first + step])


def _digest(content: str) -> str:
    return f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"


def _error(sums: Sequence[float], counts: Sequence[int]) -> float | None:
    """Standard error of a mean over tokens that come in windows, which are independent of each
    other by assumption (tokens are not): that of a ratio. None of a single window."""
    windows, count = len(sums), sum(counts)
    if windows < 2:
        return None
    mean = sum(sums) / count
    residuals = sum((part - own * mean) ** 2 for part, own in zip(sums, counts, strict=True))
    return sqrt(residuals * windows / (windows - 1)) / count
