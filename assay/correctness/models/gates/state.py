"""A call leaves nothing behind: other tokens in between change nothing, nor does a backward pass.

Catches context that a block stores and reads again at the next call, where it is that of the batch
before and a second backward fails; running statistics; masks and tables kept for one length.
"""

from collections.abc import Iterator

import torch

from assay.correctness.models.finding import Finding, failed
from assay.correctness.models.gates._comparison import Comparison, difference, mode, verdict
from assay.correctness.models.model_calls import call
from assay.correctness.models.subject import Subject

ORDER = 11
DEBUG = (
    "Look for assignments to self within forward: pass such tensors on as arguments and return "
    "values instead, so that the loop over the blocks owns them."
)

_ROUNDING = 1e-6  # weights may be merged in eval mode and taken apart again


def examine(subject: Subject) -> Finding:
    """The same call before and after others, of other sizes, with backward passes and decoding."""
    awake = subject.decoding
    try:
        seen = list(_compare(subject))
    except RuntimeError as error:
        if "backward" not in str(error) and "graph" not in str(error):
            raise
        return failed(f"a second backward pass fails: {str(error).partition('.')[0]}")
    finally:
        awake.model.zero_grad(set_to_none=True)
    return verdict(seen, held="the same tokens give the same logits whatever came before")


def _compare(subject: Subject) -> Iterator[Comparison]:
    model = subject.decoding.model
    idx, targets = subject.tokens(2, seed=20), subject.tokens(2, seed=21)
    with mode(model, "eval"):
        judged = call(model, idx).logits
    with mode(model, "train", graphs=True):
        first = call(model, idx, targets)
        first.loss.backward()
        _others(subject)
        second = call(model, idx, targets)
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with mode(model, "eval"):
        _decode(subject)
        if subject.foreign:
            yield _moves(call(model, targets).logits, judged)
        again = call(model, idx).logits
    allowed = min(subject.decoding.same, _ROUNDING)
    yield _comparison(difference(second.logits, first.logits), allowed, "in train mode")
    yield _comparison(difference(again, judged), allowed, "in eval mode")
    yield from _changed(buffers, dict(model.named_buffers()))


def _others(subject: Subject) -> None:
    """Other tokens, other sizes, a backward pass, and a call that builds no graph."""
    model, other = subject.decoding.model, subject.tokens(2, seed=24)
    call(model, other, other).loss.backward()
    with torch.no_grad():
        call(model, subject.tokens(3, 7, seed=22))


def _decode(subject: Subject) -> None:
    if subject.decodes:
        model = subject.decoding.model
        idx = subject.tokens(1, 4, seed=26)
        held = call(model, idx[:, :3], cache=subject.begin(model, 1)).cache
        call(model, idx[:, 3:], cache=held)


def _comparison(apart: float, allowed: float, when: str) -> Comparison:
    return Comparison(
        moved=apart,
        allowed=allowed,
        words=f"the same tokens give logits that differ by {apart:.2g} after other calls, {when}",
    )


def _moves(other: torch.Tensor, one: torch.Tensor) -> Comparison:
    """Other tokens of the same shape must give something else."""
    return Comparison(
        moved=float("inf") if torch.equal(other, one) else 0.0,
        allowed=0.0,
        words="other tokens in as many places give the same logits: those of a call before",
    )


def _changed(
    before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]
) -> Iterator[Comparison]:
    """Buffers that calls in eval mode have changed; one that is new or longer is a table."""
    for name, old in before.items():
        new = after.get(name)
        if new is not None and new.shape == old.shape and not torch.equal(new, old):
            words = f"calls in eval mode change the buffer {name}"
            yield Comparison(moved=difference(new.double(), old.double()), allowed=0.0, words=words)
