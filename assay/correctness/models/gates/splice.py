"""A destroyed codec moves the loss: in training without a cache, in evaluation and in decoding.

Catches a compression that is applied only when there is a cache. Training and all evaluation ran
without one, so results were published of a codec that nothing had passed through.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from assay.correctness.models.finding import Finding, failed, passed, unsupported
from assay.correctness.models.gates._comparison import difference, mode
from assay.correctness.models.model_calls import call
from assay.correctness.models.subject import Subject

ORDER = 8
DEBUG = (
    "Set a breakpoint in the codec and train one step without a cache: it must be reached, and "
    "what it returns must be what attention reads. Encode and decode on every path, cache or not."
)
UNIT = "of the largest loss or logit, least moved"
TRAINING, EVALUATION = "in training without a cache", "in evaluation without a cache"
DECODING = "in cached decode"
_WORDS = ("splice", "codec", "compress")
_PAIRS = (("compress", "expand"), ("encode", "decode"))
_NO_CODECS = (nn.ModuleList, nn.ModuleDict, nn.Identity)
_METHODS = ("forward", "compress", "compress_only", "encode", "expand", "decode", "reconstruct")


def examine(subject: Subject) -> Finding:
    """A destroyed codec has zeros for weights and returns zeros.

    In training each is destroyed alone; on the other paths all of one class at once.
    """
    awake = subject.decoding
    codecs = dict(_codecs(awake.model))
    if not codecs:
        return unsupported("no codec in it: nothing is named for one, or has compress and expand")
    kinds = {type(codec).__name__: [] for codec in codecs.values()}
    for codec in codecs.values():
        kinds[type(codec).__name__].append(codec)
    alone = {f"{name} ({type(codec).__name__})": [codec] for name, codec in codecs.items()}
    together = {f"of class {name}": them for name, them in kinds.items()}
    paths = {TRAINING: alone, EVALUATION: together}
    if subject.decodes:
        paths[DECODING] = together
    sound = {path: _run(subject, path) for path in paths}
    moved = {
        f"{name} {path}": difference(_without(them, subject, path), sound[path])
        for path, groups in paths.items()
        for name, them in groups.items()
    }
    where = min(moved, key=moved.get)
    least = moved[where]
    if least <= awake.other:
        return failed(
            f"nothing moves (by {least:.2g}) when the codec {where} is destroyed: it is bypassed",
            value=least,
            unit=UNIT,
        )
    words = ", ".join(paths)
    return passed(f"all {len(codecs)} codecs are in use: {words}", value=least, unit=UNIT)


def _without(codecs: list[nn.Module], subject: Subject, path: str) -> torch.Tensor:
    with ExitStack() as stack:
        for codec in codecs:
            stack.enter_context(destroyed(codec))
        return _run(subject, path)


def _run(subject: Subject, path: str) -> torch.Tensor:
    """What must move: the loss, or the logits of tokens decoded behind others."""
    model, idx = subject.decoding.model, subject.tokens(2, seed=17)
    with mode(model, "train" if path == TRAINING else "eval"):
        if path != DECODING:
            return call(model, idx, subject.tokens(2, seed=18)).loss
        held = call(model, idx[:, :6], cache=subject.begin(model, 2)).cache
        return call(model, idx[:, 6:8], cache=held).logits


def _codecs(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Modules that are named for one, by class or by attribute, or have a pair of methods; where
    such a pair are modules themselves, those."""
    inside: set[nn.Module] = {model}  # what belongs to a codec is none of its own
    for name, module in model.named_modules():
        if module in inside or isinstance(module, _NO_CODECS):
            continue
        own = name.rpartition(".")[2].lower()
        called = any(
            word in text for word in _WORDS for text in (own, type(module).__name__.lower())
        )
        if called or any(_acts(module, both) for both in _PAIRS):
            inside.update(module.modules())
            yield name, module
            continue
        for both in _PAIRS:
            for act in both if all(act in module._modules for act in both) else ():
                part = module._modules[act]
                inside.update(part.modules())
                yield f"{name}.{act}", part


def _acts(module: nn.Module, both: tuple[str, ...]) -> bool:
    return all(callable(getattr(type(module), act, None)) for act in both)


@contextmanager
def destroyed(codec: nn.Module) -> Iterator[None]:
    """Within it the weights of a codec are zero, and so is all that its methods return."""
    kept = [(weight, weight.detach().clone()) for weight in codec.parameters()]
    acts = [act for act in _METHODS if callable(getattr(type(codec), act, None))]
    own = {act: codec.__dict__[act] for act in acts if act in codec.__dict__}
    try:
        with torch.no_grad():
            for weight, _ in kept:
                weight.zero_()
        for act in acts:
            object.__setattr__(codec, act, _zeroed(getattr(codec, act)))
        yield
    finally:
        for act in acts:
            codec.__dict__.pop(act, None)
        codec.__dict__.update(own)
        with torch.no_grad():
            for weight, old in kept:
                weight.copy_(old)


def _zeroed(act: Any) -> Any:
    def give(*args: Any, **kwargs: Any) -> Any:
        return _nothing(act(*args, **kwargs))

    return give


def _nothing(thing: Any) -> Any:
    """The same form, with zeros in every tensor of numbers."""
    if isinstance(thing, torch.Tensor):
        return torch.zeros_like(thing) if thing.is_floating_point() else thing
    if isinstance(thing, tuple | list) and not hasattr(thing, "_fields"):
        return type(thing)(_nothing(member) for member in thing)
    if isinstance(thing, dict):
        return {name: _nothing(member) for name, member in thing.items()}
    return thing
