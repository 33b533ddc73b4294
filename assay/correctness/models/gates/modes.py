"""train() and eval() give the same logits where dropout is 0; where it is not, eval() repeats.

Catches mechanisms that train on one function and are judged on another: a learned mix that
becomes a choice in evaluation, a codec for one of the modes, dropout that no setting turns off or
that evaluation leaves on.
"""

from collections.abc import Iterator

import torch
from torch import nn

from assay.correctness.models.finding import BrokenContract, Finding
from assay.correctness.models.gates._comparison import Comparison, difference, mode, verdict
from assay.correctness.models.model_calls import call
from assay.correctness.models.subject import Subject

ORDER = 10
DEBUG = (
    "Search the model for self.training, torch.is_grad_enabled and dropout rates that do not come "
    "from the configuration; each is a branch that only one mode takes."
)

_DROPOUT = 0.5


def examine(subject: Subject) -> Finding:
    """As in training, with a graph, against as in evaluation, without."""
    awake = subject.awake
    idx, targets = subject.tokens(2, seed=15), subject.tokens(2, seed=16)
    with mode(awake.model, "train", graphs=True):
        trained = call(awake.model, idx, targets).logits
    with mode(awake.model, "eval"):
        judged = call(awake.model, idx, targets).logits
    apart = difference(judged, trained)
    words = f"logits differ by {apart:.2g} between train and eval mode"
    seen = [Comparison(moved=apart, allowed=awake.other, words=words), *_repeats(subject)]
    return verdict(seen, held="train and eval mode give the same logits")


def _repeats(subject: Subject) -> Iterator[Comparison]:
    """Two calls in eval mode of a model with dropout; where code of the user's may have a path
    of its own for it, also two from a cache."""
    idx = subject.tokens(2, 6, seed=15)
    try:
        model = subject.make(8, dropout=_DROPOUT)
    except BrokenContract:
        return
    ways = {"calls": lambda: call(model, idx).logits}
    if subject.foreign and subject.decodes:
        ways["calls with a cache"] = lambda: _decoded(subject, model, idx)
    for name, way in ways.items():
        with mode(model, "eval"):
            apart = difference(way(), way())
        words = f"with dropout {_DROPOUT} two {name} in eval mode differ by {apart:.2g}"
        yield Comparison(moved=apart, allowed=0.0, words=words)


def _decoded(subject: Subject, model: nn.Module, idx: torch.Tensor) -> torch.Tensor:
    held = call(model, idx[:, :3], cache=subject.begin(model, len(idx))).cache
    return call(model, idx[:, 3:], cache=held).logits
