"""Over a few steps a gradient reaches every trainable weight, and every part of it.

Catches layers that are made and not used, codecs left out of the training graph, and branches that
are cut off: one published model trained 102 of its 121 million weights.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import nn

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import Finding, failed, passed
from assay.correctness.models.forward import cross_entropy, forward, in_mode

ORDER = 5
DEBUG = (
    "The weights named are not in the training graph: find where they should be used. The usual "
    "causes are a call that is skipped without a cache, a detach, and two factors that are both "
    "zero at the start."
)
UNIT = "of the weights"
_LARGE_PART = 16  # a dead part is at least one slice of so many
_NAMED = 4  # weights or shapes that a reason lists


def examine(subject: ExaminedModel) -> Finding:
    """Look for tensors without a gradient, whole or in slices along an axis."""
    training = subject.training
    if training.strays:
        shapes = ", ".join(str(list(stray.shape)) for stray in training.strays[:_NAMED])
        return failed(
            f"tensors that ask for a gradient are not among the model's parameters, so nothing "
            f"trains or saves them: of shape {shapes}"
        )
    dead = dict(_dead_parts(subject))
    suspects = {n: part for n, part in dead.items() if training.reached[n] is not None}
    for name in _alive(subject, suspects):
        del dead[name]
    total = sum(p.numel() for p in training.model.parameters() if p.requires_grad)
    if not dead:
        return passed(f"a gradient reaches all {total} weights", value=0.0, unit=UNIT)
    lost = sum(int(part.sum()) for part in dead.values())
    names = [name for name, part in dead.items() if part.all()]
    names += [
        f"{name} ({int(part.sum())} of {part.numel()})"
        for name, part in dead.items()
        if not part.all()
    ]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return failed(
        f"in {len(training.losses)} steps no gradient reached {lost} of {total} weights: "
        f"{', '.join(names[:_NAMED])}{more}",
        value=lost / total,
        unit=UNIT,
    )


def _dead_parts(subject: ExaminedModel) -> Iterator[tuple[str, torch.Tensor]]:
    """Names of weights, each with a mask of its elements that no gradient reached."""
    training, words = subject.training, subject.config.vocab_size
    weights = dict(training.model.named_parameters())
    tables = {
        f"{name}.weight"
        for name, module in training.model.named_modules()
        if isinstance(module, nn.Embedding)
    }
    for name, reached in training.reached.items():
        if reached is None or not reached.any():
            yield name, torch.ones_like(weights[name], dtype=torch.bool)
            continue
        needed_rows = (words, subject.length) if name in tables else (words,)
        part = _dead_slices(reached, needed_rows)
        if part is not None:
            yield name, part


def _dead_slices(reached: torch.Tensor, needed_rows: tuple[int, ...]) -> torch.Tensor | None:
    """Mask of slices without a gradient, if at least one in 16 along some axis has none.

    A table that is longer than needed has rows for all words, or positions, reached.
    """
    for axis in range(reached.ndim):
        others = [other for other in range(reached.ndim) if other != axis]
        slices = reached.any(dim=others) if others else reached
        unreached = int((~slices).sum())
        padded = len(slices) - unreached in needed_rows
        if unreached and not padded and unreached * _LARGE_PART >= len(slices):
            shape = [1] * reached.ndim
            shape[axis] = len(slices)
            return (~slices).reshape(shape).expand(reached.shape)
    return None


def _alive(subject: ExaminedModel, suspects: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """Suspects that are in use after all.

    A bias of keys cancels in the softmax: its gradient is rounding, sometimes exactly zero. It
    moves the loss by rounding, where an unused weight does not move it at all and one cut off
    from its gradient moves it far. A part, not a whole, may also be beyond what a fresh model's
    numbers reach, such as the outer pieces of a spline: noise on all weights reaches it.
    """
    if not suspects:
        return
    perturbed = subject.perturbed
    weights = dict(perturbed.model.named_parameters())
    idx, targets = subject.tokens(4, seed=11), subject.tokens(4, seed=12)

    def losses() -> torch.Tensor:
        return cross_entropy(forward(perturbed.model, idx).logits, targets, reduction="none")

    with in_mode(perturbed.model, "train", graphs=True):
        before = losses()
        gradients = torch.autograd.grad(
            before.sum(), [weights[name] for name in suspects], allow_unused=True
        )
        for (name, part), gradient in zip(suspects.items(), gradients, strict=True):
            if not part.all() and gradient is not None and bool((gradient[part] != 0).any()):
                yield name
                continue
            with torch.no_grad():
                old = weights[name].clone()
                weights[name].add_(0.5 * part)
                moved = float((losses() - before).abs().max() / before.abs().max())
                weights[name].copy_(old)
            if 0 < moved <= perturbed.new_shape_tolerance:
                yield name
