"""Over a few steps a gradient reaches every trainable weight, and every part of it.

Catches layers that are made and not used, codecs left out of the training graph, and branches that
are cut off: one published model trained 102 of its 121 million weights. Also a hand-written
backward whose slope is not that of its forward.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import nn

from assay.correctness.models.custom_functions import wrong_slopes
from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import Finding, failed, passed
from assay.correctness.models.forward import cross_entropy, forward, in_mode
from assay.correctness.models.perturbation import perturb
from assay.correctness.models.short_training import batch

ORDER = 6
DEBUG = (
    "The weights named are not in the training graph: find where they should be used. The usual "
    "causes are a call that is skipped without a cache, a detach, and two factors that are both "
    "zero at the start. A wrong slope: torch.autograd.gradcheck on the function named, in float64."
)
UNIT = "of the weights"
_LARGE_PART = 16  # a dead part is at least one slice of so many
_NOISY_MODELS = 8  # with other choices of experts each
_LISTS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
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
    for name in _reached_under_noise(subject, dead):
        del dead[name]
    total = sum(p.numel() for p in training.model.parameters() if p.requires_grad)
    if not dead:
        return _slopes(subject, f"a gradient reaches all {total} weights")
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


def _slopes(subject: ExaminedModel, success: str) -> Finding:
    """Compare hand-written backward passes with differences, where the model has any."""
    functions = subject.training.functions
    if not functions:
        return passed(success, value=0.0, unit=UNIT)
    model = subject.perturbed.model
    idx, targets = subject.tokens(2, seed=11), subject.tokens(2, seed=12)
    with in_mode(model, "train", graphs=True):
        wrong = next(wrong_slopes(functions, lambda: forward(model, idx, targets)), None)
    if wrong is None:
        names = ", ".join(sorted(function.__name__ for function in functions))
        success = f"{success}; the backward of {names} was compared with differences"
        return passed(success, value=0.0, unit=UNIT)
    return failed(
        f"the backward of {wrong.function} gives a slope of {wrong.given:.4g} in its argument "
        f"{wrong.argument}; differences of its forward give {wrong.measured:.4g}"
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


def _reached_under_noise(subject: ExaminedModel, dead: Mapping[str, torch.Tensor]) -> set[str]:
    """Weights of experts that got no token in training and get one in some noisy model.

    A whole weight is taken for an expert's only where a gradient reached one of its likes: two
    factors that are both zero at the start are reached under noise too, and never in training.
    """
    pending = {n: part for n, part in dead.items() if not part.all() or _has_live_twin(n, subject)}
    waiting = set(pending)
    for seed in range(_NOISY_MODELS):
        if not pending:
            break
        model = subject.make(seed)
        perturb(model, seed=seed)
        weights = dict(model.named_parameters())
        idx, targets = batch(subject.config.vocab_size, subject.length, seed=seed)
        loss = forward(model, idx, targets).loss
        wanted = [weights[name] for name in pending]
        gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
        pending = {
            name: part
            for (name, part), gradient in zip(pending.items(), gradients, strict=True)
            if gradient is None or not bool((gradient[part] != 0).any())
        }
    return waiting - set(pending)


def _has_live_twin(name: str, subject: ExaminedModel) -> bool:
    """Return True where a gradient reached the same weight of another member of a list within a
    layer, such as another expert."""
    training = subject.training
    modules = dict(training.model.named_modules())
    live = [n.split(".") for n, hit in training.reached.items() if hit is not None and hit.any()]
    words = name.split(".")
    for place in range(1, len(words)):
        within_layer = any(word.isdigit() for word in words[:place])
        if within_layer and isinstance(modules.get(".".join(words[:place])), _LISTS):
            same = (words[:place], words[place + 1 :])
            if any((other[:place], other[place + 1 :]) == same for other in live):
                return True
    return False


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
