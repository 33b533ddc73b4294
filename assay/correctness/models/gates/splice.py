"""A destroyed codec moves the loss: in training without a cache, in evaluation and in decoding.

Catches a compression that is applied only when there is a cache. Training and all evaluation ran
without one, so results were published of a codec that nothing had passed through.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from assay.correctness.models.examined_model import ExaminedModel
from assay.correctness.models.finding import (
    Finding,
    failed,
    passed,
    relative_difference,
    unsupported,
)
from assay.correctness.models.forward import forward, in_mode

ORDER = 8
DEBUG = (
    "Set a breakpoint in the codec and train one step without a cache: it must be reached, and "
    "what it returns must be what attention reads. Encode and decode on every path, cache or not."
)
UNIT = "of the largest loss or logit, least moved"
TRAINING, EVALUATION = "in training without a cache", "in evaluation without a cache"
DECODING = "in cached decode"
_NAMES = ("splice", "codec", "compress")
_METHOD_PAIRS = (("compress", "expand"), ("encode", "decode"))
_NO_CODECS = (nn.ModuleList, nn.ModuleDict, nn.Identity)
_METHODS = ("forward", "compress", "compress_only", "encode", "expand", "decode", "reconstruct")


def examine(subject: ExaminedModel) -> Finding:
    """Destroy codecs, with zeros for weights and outputs, on every path.

    In training each is destroyed alone; on the other paths all of one class at once.
    """
    codecs = dict(_codecs(subject.decoder.model))
    if not codecs:
        return unsupported("no codec: no module is named for one or has compress and expand")
    each = {f"{name} ({type(codec).__name__})": [codec] for name, codec in codecs.items()}
    by_class: dict[str, list[nn.Module]] = {}
    for codec in codecs.values():
        by_class.setdefault(f"of class {type(codec).__name__}", []).append(codec)
    paths = {TRAINING: each, EVALUATION: by_class}
    if subject.has_cache:
        paths[DECODING] = by_class
    intact = {path: _run(subject, path) for path in paths}
    moved = {
        f"{name} {path}": relative_difference(_run_without(group, subject, path), intact[path])
        for path, groups in paths.items()
        for name, group in groups.items()
    }
    where = min(moved, key=moved.get)
    least = moved[where]
    if least <= subject.decoder.new_shape_tolerance:
        return failed(
            f"nothing moves (by {least:.2g}) when the codec {where} is destroyed: it is bypassed",
            value=least,
            unit=UNIT,
        )
    reason = f"all {len(codecs)} codecs are in use: {', '.join(paths)}"
    return passed(reason, value=least, unit=UNIT)


def _run_without(codecs: list[nn.Module], subject: ExaminedModel, path: str) -> torch.Tensor:
    with ExitStack() as stack:
        for codec in codecs:
            stack.enter_context(destroyed(codec))
        return _run(subject, path)


def _run(subject: ExaminedModel, path: str) -> torch.Tensor:
    """The loss, or the logits of two tokens decoded behind others."""
    model, idx = subject.decoder.model, subject.tokens(2, seed=17)
    with in_mode(model, "train" if path == TRAINING else "eval"):
        if path == DECODING:
            return subject.decode(model, idx[:, :8], past=6)
        return forward(model, idx, subject.tokens(2, seed=18)).loss


def _codecs(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Outermost modules that are named for a codec, by class or attribute, or have a pair of
    methods; where such a pair are modules themselves, those."""
    excluded: set[nn.Module] = {model}  # and parts of codecs
    for path, module in model.named_modules():
        if module in excluded or isinstance(module, _NO_CODECS):
            continue
        names = (path.rpartition(".")[2].lower(), type(module).__name__.lower())
        is_named = any(word in name for word in _NAMES for name in names)
        if is_named or any(_has_methods(module, pair) for pair in _METHOD_PAIRS):
            excluded.update(module.modules())
            yield path, module
            continue
        for pair in _METHOD_PAIRS:
            for name in pair if all(name in module._modules for name in pair) else ():
                part = module._modules[name]
                excluded.update(part.modules())
                yield f"{path}.{name}", part


def _has_methods(module: nn.Module, names: tuple[str, ...]) -> bool:
    return all(callable(getattr(type(module), name, None)) for name in names)


@contextmanager
def destroyed(codec: nn.Module) -> Iterator[None]:
    """Within it the weights of a codec are zero, and so is all that its methods return."""
    weights = [(weight, weight.detach().clone()) for weight in codec.parameters()]
    methods = [name for name in _METHODS if _has_methods(codec, (name,))]
    overrides = {name: codec.__dict__[name] for name in methods if name in codec.__dict__}
    try:
        with torch.no_grad():
            for weight, _ in weights:
                weight.zero_()
        for name in methods:
            object.__setattr__(codec, name, _returning_zeros(getattr(codec, name)))
        yield
    finally:
        for name in methods:
            codec.__dict__.pop(name, None)
        codec.__dict__.update(overrides)
        with torch.no_grad():
            for weight, old in weights:
                weight.copy_(old)


def _returning_zeros(method: Callable) -> Callable:
    def replacement(*args: Any, **kwargs: Any) -> Any:
        return _zeros(method(*args, **kwargs))

    return replacement


def _zeros(value: Any) -> Any:
    """The same structure with zeros in every tensor of real numbers."""
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value) if value.is_floating_point() else value
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return type(value)(_zeros(member) for member in value)
    if isinstance(value, dict):
        return {name: _zeros(member) for name, member in value.items()}
    return value
