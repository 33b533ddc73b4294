"""Over a few steps a gradient reaches every weight that asks for one, and every part of it.

Catches layers that are made and not used, codecs left out of the training graph, and branches that
are cut off: one published model trained 102 of its 121 million weights.
"""

from collections.abc import Iterator

import torch
from torch import nn

from assay.correctness.models.finding import Finding, failed, passed
from assay.correctness.models.gates._comparison import mode
from assay.correctness.models.model_calls import call, cross_entropy
from assay.correctness.models.subject import Subject

ORDER = 5
DEBUG = (
    "The weights named are not in the training graph: find where they should be used. The usual "
    "causes are a call that is skipped without a cache, a detach, and two factors that are both "
    "zero at the start."
)
UNIT = "of the weights"
_LARGE_PART = 16  # one slice of so many


def examine(subject: Subject) -> Finding:
    """Whole tensors first, then slices of every axis."""
    training = subject.training
    shapes = {name: p for name, p in training.model.named_parameters() if p.requires_grad}
    total = sum(weight.numel() for weight in shapes.values())
    tables = {f"{n}.weight" for n, m in training.model.named_modules() if _is_table(m)}
    words, positions = subject.config.vocab_size, subject.length
    dead = {name: None for name, reached in training.reached.items() if _nowhere(reached)}
    parts = {
        name: part
        for name, reached in training.reached.items()
        if name not in dead
        and (part := _dead_part(reached, (words, positions if name in tables else words)))
        is not None
    }
    suspects = {**{n: p for n, p in dead.items() if training.reached[n] is not None}, **parts}
    for name in _cleared(subject, suspects):
        dead.pop(name, None)
        parts.pop(name, None)
    lost = sum(shapes[name].numel() for name in dead)
    lost += sum(int(part.sum()) for part in parts.values())
    told = [*dead, *(f"{name} ({_share(part)})" for name, part in parts.items())]
    if training.strays:
        shapes_of = ", ".join(str(list(stray.shape)) for stray in training.strays[:4])
        return failed(
            f"tensors that ask for a gradient are not among the model's parameters, so nothing "
            f"trains or saves them: of shape {shapes_of}"
        )
    if told:
        steps = len(training.losses)
        names = ", ".join(told[:4]) + (f" and {len(told) - 4} more" if len(told) > 4 else "")
        return failed(
            f"in {steps} steps no gradient reached {lost} of {total} weights: {names}",
            value=lost / total,
            unit=UNIT,
        )
    return passed(f"a gradient reaches all {total} weights", value=0.0, unit=UNIT)


def _is_table(module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding)


def _nowhere(reached: torch.Tensor | None) -> bool:
    return reached is None or not reached.any()


def _share(part: torch.Tensor) -> str:
    return f"{int(part.sum())} of {part.numel()}"


def _dead_part(reached: torch.Tensor, whole: tuple[int, ...]) -> torch.Tensor | None:
    """Where whole slices go without, if at least one in 16 along some axis does.

    A table that was made longer than it must be has rows for all words, or positions, reached.
    """
    for axis in range(reached.ndim):
        others = [other for other in range(reached.ndim) if other != axis]
        slices = reached.any(dim=others) if others else reached
        unreached = int((~slices).sum())
        padded = len(slices) - unreached in whole
        if unreached and not padded and unreached * _LARGE_PART >= len(slices):
            shape = [1] * reached.ndim
            shape[axis] = len(slices)
            return (~slices).reshape(shape).expand(reached.shape)
    return None


def _cleared(subject: Subject, suspects: dict[str, torch.Tensor | None]) -> Iterator[str]:
    """Those that are alive after all.

    A bias of keys cancels in the softmax: its gradient is rounding, sometimes exactly zero. It
    moves the loss by rounding, where an unused weight does not move it at all and one cut off
    from its gradient moves it far. A part, not a whole, may also be beyond what a fresh model's
    numbers reach, such as the outer pieces of a spline: noise on all weights reaches it.
    """
    if not suspects:
        return
    awake = subject.awake
    weights = dict(awake.model.named_parameters())
    idx, targets = subject.tokens(4, seed=11), subject.tokens(4, seed=12)

    def losses() -> torch.Tensor:
        return cross_entropy(call(awake.model, idx).logits, targets, reduction="none")

    with mode(awake.model, "train", graphs=True):
        before = losses()
        order = list(suspects)
        gradients = torch.autograd.grad(
            before.sum(), [weights[name] for name in order], allow_unused=True
        )
        for name, gradient in zip(order, gradients, strict=True):
            part = suspects[name]
            if part is not None and gradient is not None and bool((gradient[part] != 0).any()):
                yield name
                continue
            with torch.no_grad():
                old = weights[name].clone()
                push = 0.5 if part is None else 0.5 * part
                weights[name].add_(push)
                moved = float((losses() - before).abs().max() / before.abs().max())
                weights[name].copy_(old)
            if 0 < moved <= awake.other:
                yield name
