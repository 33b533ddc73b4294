"""A destroyed codec moves the loss: in training without a cache, in evaluation and in decoding.

Catches a compression that is applied only when there is a cache. Training and all evaluation ran
without one, so results were published of a codec that nothing had passed through.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from assay.models.finding import Finding, failed, passed, unsupported
from assay.models.gates._comparison import difference, mode
from assay.models.model_calls import call
from assay.models.subject import Subject

ORDER = 8
DEBUG = (
    "Set a breakpoint in the codec and train one step without a cache: it must be reached, and "
    "what it returns must be what attention reads. Encode and decode on every path, cache or not."
)
UNIT = "of the largest loss or logit, least moved"
_WORDS = ("splice", "codec", "compress")
_METHODS = ("forward", "compress", "compress_only", "encode", "expand", "decode", "reconstruct")


def examine(subject: Subject) -> Finding:
    """Each codec is destroyed alone: its weights and all it returns are zero."""
    awake = subject.awake()
    codecs = dict(_codecs(awake.model))
    if not codecs:
        return unsupported("no codec in it: no module named for one, or with compress and expand")
    whole = {path: _run(subject, path) for path in _paths(subject)}
    least, where = float("inf"), ""
    for name, codec in codecs.items():
        for path, sound in whole.items():
            with destroyed(codec):
                moved = difference(_run(subject, path), sound)
            if moved < least:
                least, where = moved, f"{name} ({type(codec).__name__}) {path}"
    if least <= awake.other:
        return failed(
            f"nothing moves (by {least:.2g}) when the codec {where} is destroyed: it is bypassed",
            value=least,
            unit=UNIT,
        )
    words = ", ".join(whole)
    return passed(f"each of {len(codecs)} codecs is in use: {words}", value=least, unit=UNIT)


def _paths(subject: Subject) -> tuple[str, ...]:
    there = ("in training without a cache", "in evaluation without a cache")
    return (*there, "in cached decode") if subject.decodes else there


def _run(subject: Subject, path: str) -> torch.Tensor:
    """What must move: the loss, or the logits of tokens decoded behind others."""
    model, idx = subject.awake().model, subject.tokens(2, seed=17)
    with mode(model, "train" if "training" in path else "eval"), torch.no_grad():
        if "cached" not in path:
            return call(model, idx, subject.tokens(2, seed=18)).loss
        held = call(model, idx[:, :6], cache=subject.begin(model, 2)).cache
        return call(model, idx[:, 6:8], cache=held).logits


def _codecs(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, module in model.named_modules():
        called = any(word in type(module).__name__.lower() for word in _WORDS)
        both = all(callable(getattr(module, act, None)) for act in ("compress", "expand"))
        if module is not model and (called or both):
            yield name, module


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
