"""Codecs of a model: how they are recognised, and how one is destroyed to see what depends on it.

A codec is a module that is named for one, by its class or its attribute, or that has a pair of
methods, or of modules, which undo each other. A module may also have a codec among other things,
such as an attention called SpliceAttention: of such a one only the codec is destroyed, for without
all of it the model would change whatever the codec does.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

_NAMES = ("splice", "codec", "compress")
_PAIRS = (("compress", "expand"), ("encode", "decode"))
_NO_CODECS = (nn.ModuleList, nn.ModuleDict, nn.Identity)
_METHODS = ("compress", "compress_only", "encode", "expand", "decode", "reconstruct")


@dataclass(frozen=True, kw_only=True)
class Codec:
    """A module that is a codec, or has one in its methods; `kind` groups those alike."""

    path: str
    kind: str
    module: nn.Module
    is_part: bool = False  # of a module that is only named for a codec
    called: set[str] = field(default_factory=set)  # its methods that were called while watched
    used: dict[int, torch.Tensor] = field(default_factory=dict)  # weights that these used

    @property
    def is_host(self) -> bool:
        """True where the module has weights that are not the codec's."""
        return bool(self.called) and any(id(w) not in self.used for w in self.module.parameters())


def codecs(model: nn.Module) -> list[Codec]:
    """All codecs below a model, each once, and parts of those that are only named for one."""
    listed = [codec for child in model.named_children() for codec in _within(*child)]
    return list({id(codec.module): codec for codec in reversed(listed)}.values())[::-1]


def _within(path: str, module: nn.Module) -> Iterator[Codec]:
    """Codecs in a module: itself, where it is one and holds no other, or those in its parts."""
    kind = type(module).__name__
    if isinstance(module, _NO_CODECS):
        yield from _below(path, module)
    elif any(_has_methods(module, pair) for pair in _PAIRS):
        yield Codec(path=path, kind=kind, module=module)
    elif parts := [name for pair in _PAIRS if _has_modules(module, pair) for name in pair]:
        for name in parts:
            yield Codec(path=f"{path}.{name}", kind=f"{kind}.{name}", module=module._modules[name])
    elif not _is_named(path, module):
        yield from _below(path, module)
    elif inner := list(_below(path, module)):
        yield from inner
    else:
        yield from _whole_and_parts(path, module)


def _whole_and_parts(path: str, module: nn.Module) -> Iterator[Codec]:
    """A module that is only named for a codec: any of its parts may be what does the work."""
    kind = type(module).__name__
    yield Codec(path=path, kind=kind, module=module)
    for name, part in module.named_children():
        if next(part.parameters(), None) is not None:
            yield Codec(path=f"{path}.{name}", kind=f"{kind}.{name}", module=part, is_part=True)


def _below(path: str, module: nn.Module) -> Iterator[Codec]:
    for name, child in module.named_children():
        yield from _within(f"{path}.{name}", child)


def _is_named(path: str, module: nn.Module) -> bool:
    names = (path.rpartition(".")[2].lower(), type(module).__name__.lower())
    return any(word in name for word in _NAMES for name in names)


def _has_methods(module: nn.Module, names: tuple[str, ...]) -> bool:
    return all(callable(getattr(type(module), name, None)) for name in names)


def _has_modules(module: nn.Module, names: tuple[str, ...]) -> bool:
    return all(name in module._modules for name in names)


@contextmanager
def watched(codec: Codec) -> Iterator[None]:
    """Within it the weights are noted that the methods of a codec use."""
    weights = {id(weight) for weight in codec.module.parameters()}

    def noting(method: Callable) -> Callable:
        def replacement(*args: Any, **kwargs: Any) -> Any:
            codec.called.add(method.__name__)
            with _UsedTensors(weights, codec.used):
                return method(*args, **kwargs)

        return replacement

    with _replaced(codec.module, _METHODS, noting):
        yield


@contextmanager
def destroyed(codec: Codec) -> Iterator[None]:
    """Within it the weights of a codec are zero, and so is all that its methods return.

    Of a host only the weights that its methods use, and not what its forward returns.
    """
    weights = list(codec.used.values()) if codec.is_host else list(codec.module.parameters())
    before = [weight.detach().clone() for weight in weights]
    methods = _METHODS if codec.is_host else ("forward", *_METHODS)
    try:
        with torch.no_grad():
            for weight in weights:
                weight.zero_()
        with _replaced(codec.module, methods, _returning_zeros):
            yield
    finally:
        with torch.no_grad():
            for weight, old in zip(weights, before, strict=True):
                weight.copy_(old)


@contextmanager
def _replaced(
    module: nn.Module, names: tuple[str, ...], wrap: Callable[[Callable], Callable]
) -> Iterator[None]:
    """Wrap methods of one module."""
    methods = [name for name in names if _has_methods(module, (name,))]
    overrides = {name: module.__dict__[name] for name in methods if name in module.__dict__}
    try:
        for name in methods:
            object.__setattr__(module, name, wrap(getattr(module, name)))
        yield
    finally:
        for name in methods:
            module.__dict__.pop(name, None)
        module.__dict__.update(overrides)


class _UsedTensors(TorchFunctionMode):
    """Notes which of some tensors, by id, are arguments of torch functions."""

    def __init__(self, wanted: set[int], used: dict[int, torch.Tensor]) -> None:
        super().__init__()
        self.wanted, self.used = wanted, used

    def __torch_function__(self, function, types, args=(), kwargs=None):  # noqa: ANN001
        for value in (*args, *(kwargs or {}).values()):
            if id(value) in self.wanted:
                self.used[id(value)] = value
        return function(*args, **(kwargs or {}))


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
