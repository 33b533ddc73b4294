"""Logits for every position, targets or none, and a loss that is their cross entropy.

Catches a forward that gives only the last position without targets: an evaluation that slices it
scored every choice with zero. Also a loss that is shifted, weighted or has other terms in it, and
logits that have seen the targets.
"""

from collections.abc import Iterator

import torch
from torch import nn

from assay.correctness.models.finding import Finding, failed
from assay.correctness.models.gates._comparison import Comparison, difference, mode, verdict
from assay.correctness.models.model_calls import call, cross_entropy, loss_tolerance
from assay.correctness.models.subject import Subject

ORDER = 1
DEBUG = (
    "Call the model with and without targets and compare shapes and values; compute the loss "
    "beside it as F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)."
)
# In which mode, and how many tokens; None is as many as it takes.
_CALLS = (("train", None), ("eval", 5))


def examine(subject: Subject) -> Finding:
    """Against torch's own cross entropy, in both modes, some targets -1, at several lengths."""
    awake = subject.awake
    if fault := _wrong_count(awake.model):
        return failed(fault)
    comparisons: list[Comparison] = []
    for name, length in _CALLS:
        with mode(awake.model, name):
            comparisons += _compare(subject, awake.model, length, f"in {name} mode")
    return verdict(comparisons, held="logits for all positions; the loss is their cross entropy")


def _compare(
    subject: Subject, model: nn.Module, length: int | None, when: str
) -> Iterator[Comparison]:
    idx, targets = subject.tokens(3, length), subject.tokens(3, length, seed=1)
    targets[0, : idx.shape[1] // 2] = -1
    targets[1, -1] = -1
    logits, loss = call(model, idx)[:2]
    told, told_loss = call(model, idx, targets)[:2]
    yield Comparison(
        moved=0.0 if torch.equal(idx, subject.tokens(3, length)) else float("inf"),
        allowed=0.0,
        words=f"forward changes the tokens that it is given, {when}",
    )
    yield Comparison(
        moved=0.0 if loss is None else float("inf"),
        allowed=0.0,
        words=f"the loss is not None where no targets are given, {when}",
    )
    width = logits.shape[-1]
    yield Comparison(
        moved=0.0 if width == subject.config.vocab_size else float("inf"),
        allowed=0.0,
        words=f"logits are {width} wide, {when}; the vocabulary has {subject.config.vocab_size}",
    )
    apart = difference(logits, told)
    yield Comparison(
        moved=apart,
        allowed=subject.awake.same,
        words=f"logits with targets differ from those without by {apart:.2g}, {when}",
    )
    right = float(cross_entropy(told.detach(), targets))
    wrong = abs(float(told_loss) - right) / right
    yield Comparison(
        moved=wrong if told_loss.numel() == 1 else float("inf"),
        allowed=max(loss_tolerance(told), loss_tolerance(told_loss)),
        words=f"the loss is {float(told_loss):.6g} {when}; cross entropy gives {right:.6g}",
    )


def _wrong_count(model: nn.Module) -> str | None:
    """What is wrong with the number of weights that the model tells."""
    count = model.get_num_params() if hasattr(model, "get_num_params") else None
    there = sum(weight.numel() for weight in model.parameters())
    if isinstance(count, int) and 0 < count <= there:  # embeddings may be left out
        return None
    return f"get_num_params gives {count!r}; the model has {there} weights"
