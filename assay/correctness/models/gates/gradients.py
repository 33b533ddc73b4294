"""Over a few steps a gradient reaches every trainable weight, and every part of it.

Catches layers that are made and not used, codecs left out of the training graph, and branches that
are cut off: one published model trained 102 of its 121 million weights. Also a mechanism that
cancels, such as a mix of two views that are the same, and a hand-written backward whose slope is
not that of its forward.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from assay.correctness.models.custom_functions import wrong_slopes
from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import Finding, failed, passed
from assay.correctness.models.forward import cross_entropy, forward, in_mode
from assay.correctness.models.perturbation import perturb
from assay.correctness.models.short_training import batch
from assay.frameworks.torch.dispatch import OperatorWatch

ORDER = 6
DEBUG = (
    "Find where the weights named should act. The usual causes are a call that is skipped without "
    "a cache, a detach, two factors that are both zero at the start, and two terms that are the "
    "same and cancel. A wrong slope: torch.autograd.gradcheck on the function named, in float64."
)
UNIT = "of the weights"
_LARGE_PART = 16  # a dead part is at least one slice of so many
_NOISY_MODELS = 8  # with other choices of experts each
_LISTS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
_NO_SLOPE = 1e-12  # of the largest gradient: what is below is rounding in float64
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
    cancelling = _settle(subject, dead)
    others = {name: part for name, part in dead.items() if name not in cancelling}
    for name in _reached_under_noise(subject, others):
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
        f"in {len(training.losses)} steps no gradient reached {lost} of {total} weights"
        f"{', but for rounding: ' if cancelling else ': '}{', '.join(names[:_NAMED])}{more}",
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


def _settle(subject: ExaminedModel, dead: dict[str, torch.Tensor]) -> list[str]:
    """Take out what is in use after all, and add weights whose effect cancels: their names.

    A bias of keys cancels too: its gradient is rounding, sometimes exactly zero. It has an effect
    where a softmax does not sum to one; of a softmax written out only its name tells. An unused
    weight does not move the loss at all, and one cut off from its gradient moves it far. A part,
    not a whole, may also be beyond what a fresh model's numbers reach, such as the outer pieces of
    a spline: noise on all weights reaches it.
    """
    perturbed, cancelling = subject.perturbed, []
    named = perturbed.model.named_parameters()
    weights = {name: weight for name, weight in named if weight.requires_grad}
    loss = _losses(subject).sum()
    slopes = torch.autograd.grad(loss, list(weights.values()), materialize_grads=True)
    largest = max(float(slope.abs().max()) for slope in slopes)
    exact = perturbed.lowest_dtype == torch.float64
    for (name, weight), slope in zip(weights.items(), slopes, strict=True):
        part = dead.get(name, torch.ones_like(weight, dtype=torch.bool))
        steepest = float(slope[part].abs().max())
        if name in dead and steepest and not part.all():
            del dead[name]
        elif name in dead or (exact and steepest <= _NO_SLOPE * largest):
            if not 0 < _movement(subject, weight, part) <= perturbed.new_shape_tolerance:
                continue
            with _SoftmaxWithSink(), sdpa_kernel(SDPBackend.MATH):
                moved = _movement(subject, weight, part)
            is_bias = moved > perturbed.new_shape_tolerance or "bias" in name.rpartition(".")[2]
            if is_bias and part.sum() <= subject.config.n_embd:
                dead.pop(name, None)
            else:
                dead[name] = part
                cancelling.append(name)
    return cancelling


class _SoftmaxWithSink(OperatorWatch):
    """Adds an entry of score 0 to each softmax, which gives nothing back."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket in (torch.ops.aten._softmax, torch.ops.aten._safe_softmax):
            out = out * args[0].logsumexp(args[1], keepdim=True).sigmoid()
        return out


@torch.no_grad()
def _movement(subject: ExaminedModel, weight: nn.Parameter, part: torch.Tensor) -> float:
    """Change of the losses, relative to the largest, when a part of a weight is drawn anew."""
    before, old = _losses(subject), weight.clone()
    drawn = torch.randn(weight.shape, generator=torch.Generator().manual_seed(0)).to(weight)
    weight.copy_(torch.where(part, drawn, old))
    moved = float((_losses(subject) - before).abs().max() / before.abs().max())
    weight.copy_(old)
    return moved


def _losses(subject: ExaminedModel) -> torch.Tensor:
    """Loss of each token in the noisy model."""
    model, idx = subject.perturbed.model, subject.tokens(4, seed=11)
    with in_mode(model, "train", graphs=True):
        logits = forward(model, idx).logits
    return cross_entropy(logits, subject.tokens(4, seed=12), reduction="none")
