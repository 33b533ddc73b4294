"""Logits for every position, with targets or without, and a loss that is their cross entropy.

Catches a forward that gives only the last position without targets: an evaluation that slices it
scored every choice with zero. Also a loss that is shifted, weighted or has terms in it that
`auxiliary_loss` does not declare, and logits that have seen the targets. A loss for training beside
it, `loss(idx, targets)`, must be the same, with its gradients.
"""

import inspect
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import nn

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import (
    Comparison,
    Finding,
    compare,
    failed,
    requirement,
    summarize,
)
from assay.correctness.models.forward import compare_loss, forward, in_mode, loss_tolerance

ORDER = 1
COMPARES_CALLS = True
DEBUG = (
    "Call the model with and without targets and compare shapes and values; compute the loss "
    "beside it as F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1). What "
    "is added on purpose goes into self.auxiliary_loss at each call."
)
# Modes and numbers of tokens; None is as many as it takes.
_CALLS = (("train", None), ("eval", 5))


def examine(subject: ExaminedModel) -> Finding:
    """Compare with torch's cross entropy in both modes, some targets -1, at several lengths."""
    model = subject.perturbed.model
    if fault := _count_fault(model):
        return failed(fault)
    comparisons: list[Comparison] = []
    for mode, length in _CALLS:
        with in_mode(model, mode):
            comparisons += _compare(subject, length, f"in {mode} mode")
    success = "logits for all positions; the loss is their cross entropy"
    if hasattr(model, "auxiliary_loss"):
        success += " and the auxiliary_loss that the model declares"
    if _has_loss(model):
        comparisons += _compare_losses(subject)
        success += "; loss() beside it agrees, with its gradients"
    return summarize(comparisons, success=success)


def _compare(subject: ExaminedModel, length: int | None, where: str) -> Iterator[Comparison]:
    model, words = subject.perturbed.model, subject.config.vocab_size
    idx, targets = subject.tokens(3, length), subject.tokens(3, length, seed=1)
    targets[0, : idx.shape[1] // 2] = -1
    targets[1, -1] = -1
    plain = forward(model, idx)
    output = forward(model, idx, targets)
    yield requirement(
        torch.equal(idx, subject.tokens(3, length)),
        f"forward changes the tokens that it is given, {where}",
    )
    yield requirement(
        plain.loss is None, f"the loss is not None where no targets are given, {where}"
    )
    width = plain.logits.shape[-1]
    yield requirement(
        width == words, f"logits are {width} wide, {where}; the vocabulary has {words}"
    )
    message = f"logits with targets differ from those without by %.2g, {where}"
    tolerance = subject.perturbed.same_shape_tolerance
    yield compare(plain.logits, output.logits, tolerance, message)
    tolerance = loss_tolerance(output.logits)
    yield compare_loss(output, output.logits, targets, tolerance, where)


def _has_loss(model: nn.Module) -> bool:
    """True where a model has loss(idx, targets); what else is called so is none of ours."""
    method = inspect.getattr_static(type(model), "loss", None)
    if not inspect.isfunction(method):
        return False
    return tuple(inspect.signature(method).parameters)[1:] == ("idx", "targets")


def _compare_losses(subject: ExaminedModel) -> Iterator[Comparison]:
    """Compare loss(idx, targets) with the loss of forward, and the gradients of both."""
    model = subject.perturbed.model
    idx, targets = subject.tokens(3, seed=2), subject.tokens(3, seed=3)
    targets[0, : idx.shape[1] // 2] = -1
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    with in_mode(model, "train", graphs=True):
        expected, actual = forward(model, idx, targets).loss, model.loss(idx, targets)
        slopes, others = (
            torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
            for loss in (expected, actual)
        )
    message = "loss(idx, targets) differs from the loss of forward by %.2g"
    same = compare(actual, expected, loss_tolerance(expected), message)
    yield same
    if same.holds:
        yield from _compare_slopes(subject, weights, slopes, others)


def _compare_slopes(
    subject: ExaminedModel,
    names: Iterable[str],
    expected: Sequence[torch.Tensor | None],
    actual: Sequence[torch.Tensor | None],
) -> Iterator[Comparison]:
    """Compare gradients by name. Below a share of the model's largest they are held to that share:
    of a bias of keys, which moves nothing, the gradient is rounding and nothing else."""
    given = [slope for slope in expected if slope is not None]
    epsilon = max(torch.finfo(slope.dtype).eps for slope in given)
    least = epsilon**0.25 * max(float(slope.abs().max()) for slope in given)
    for name, own, other in zip(names, expected, actual, strict=True):
        if own is None or other is None:
            yield requirement(own is other, f"of forward and loss() only one moves {name}")
            continue
        difference = float((other - own).abs().max()) / max(float(own.abs().max()), least)
        yield Comparison(
            difference=difference,
            tolerance=subject.perturbed.new_shape_tolerance,
            message=f"the gradient of loss(idx, targets) by {name} differs by {difference:.2g} "
            "from forward's",
        )


def _count_fault(model: nn.Module) -> str | None:
    """Fault of get_num_params() in words; None where there is none."""
    count = model.get_num_params() if hasattr(model, "get_num_params") else None
    weights = sum(weight.numel() for weight in model.parameters())
    if isinstance(count, int) and 0 < count <= weights:  # embeddings may be left out
        return None
    return f"get_num_params gives {count!r}; the model has {weights} weights"
