"""Reports from programs that torch.compile has made, and the guard that keeps them apart.

While torch.compile traces a model, what the hooks would do becomes calls of one operator, which has
an effect and so is neither dropped nor moved past another. When the program runs, the operator
reports to whoever subscribed to the model's number. Without a subscriber it does nothing.

torch.compile ignores hooks that come after it. But on every call a program compares torch's global
state with that in which it was traced, the autocast settings of all kinds of devices among it. Two
kinds that no machine here has carry the guard: what is traced while they are set runs only while
they are set to the same. Nothing else looks at them, and reading them costs a program nothing.
"""

import itertools
import weakref
from functools import cache
from typing import Protocol

import torch
from torch import Tensor, nn

from assay.captures.torch.sites import Scalars, Tensors

NO_SITE = -1
NO_CACHE = -1
_NO_TENSORS = "-"
_GUARD_DEVICES = ("ipu", "maia")


class Subscriber(Protocol):
    """Receiver of what a running program reports."""

    def receive(
        self, event: str, site: int, tensors: Tensors, scalars: Scalars, past: int | None
    ) -> None: ...


_subscribers: dict[int, Subscriber] = {}
_numbers: "weakref.WeakKeyDictionary[nn.Module, int]" = weakref.WeakKeyDictionary()
_next = itertools.count()


def number_of(model: nn.Module) -> int:
    """Number that stays with the model, so that programs traced in one capture serve the next."""
    return _numbers.setdefault(model, next(_next))


def subscribe(model: int, subscriber: Subscriber) -> None:
    """Receive what programs of the model report, until `unsubscribe`."""
    _define()
    _subscribers[model] = subscriber


def unsubscribe(model: int) -> None:
    """Receive no more."""
    _subscribers.pop(model, None)


def emit(
    event: str,
    model: int,
    site: int = NO_SITE,
    tensors: Tensors | None = None,
    scalars: Scalars | None = None,
    past: int | None = None,
) -> None:
    """Write a report into the program that is being traced."""
    names, operands = "", []
    for name, tensor in (tensors or {}).items():
        names += f"{name} "
        operands.append(tensor.detach())
    if not operands:
        # Inductor writes kernels that are not finished behind an operator without tensors.
        names, operands = f"{_NO_TENSORS} ", [torch.empty(0)]
    words, numbers = "", []
    for name, value in (scalars or {}).items():
        if isinstance(value, str):
            words += f"{name}:{value} "
        elif isinstance(value, bool):
            words += f"{name}?{int(value)} "
        elif value is not None:
            words += f"{name}# "
            numbers.append(float(value))
    torch.ops.assay.report(
        event, model, site, names, operands, words, numbers, NO_CACHE if past is None else past
    )


@cache
def _define() -> None:
    """Register the operator with torch, once in a process."""
    tags = [tag] if (tag := getattr(torch.Tag, "cudagraph_unsafe", None)) is not None else []
    operator = torch.library.custom_op("assay::report", _report, mutates_args=(), tags=tags)
    operator.register_fake(lambda *_: None)  # while tracing there are no values
    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

    _register_effectful_op(torch.ops.assay.report.default, _EffectType.ORDERED)


def _report(
    event: str,
    model: int,
    site: int,
    names: str,
    operands: list[Tensor],
    words: str,
    numbers: list[float],
    past: int,
) -> None:
    subscriber = _subscribers.get(model)
    if subscriber is None:
        return
    tensors = dict(zip(names.split(), operands, strict=True))
    tensors.pop(_NO_TENSORS, None)
    subscriber.receive(event, site, tensors, _scalars(words, numbers), None if past < 0 else past)


def _scalars(words: str, numbers: list[float]) -> Scalars:
    """Scalars that `emit` wrote into words and numbers."""
    scalars: Scalars = {}
    remaining = iter(numbers)
    for word in words.split():
        if word.endswith("#"):
            scalars[word[:-1]] = next(remaining)
        elif "?" in word:
            name, _, value = word.partition("?")
            scalars[name] = value == "1"
        else:
            name, _, text = word.partition(":")
            scalars[name] = text
    return scalars


Captured = tuple[int, tuple[int, ...]]  # a model and its hooked modules

_guards: dict[frozenset[Captured], int] = {}
_captured: list[Captured] = []
_autocast_before: list[tuple[bool, torch.dtype]] = []


def set_guard(captured: Captured) -> None:
    """Keep programs traced from here on apart from others, while this is captured."""
    if not _captured:
        _autocast_before[:] = [
            (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
            for device in _GUARD_DEVICES
        ]
    _captured.append(captured)
    _write_guard()


def clear_guard(captured: Captured) -> None:
    """Undo `set_guard`."""
    _captured.remove(captured)
    if _captured:
        _write_guard()
        return
    for device, (enabled, dtype) in zip(_GUARD_DEVICES, _autocast_before, strict=True):
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)


def _write_guard() -> None:
    """Write the number of this set of captures, in base len(_digits), one digit per device."""
    number = _guards.setdefault(frozenset(_captured), len(_guards))
    for device in _GUARD_DEVICES:
        number, digit = divmod(number, len(_digits()))
        torch.set_autocast_enabled(device, True)
        torch.set_autocast_dtype(device, _digits()[digit])


@cache
def _digits() -> list[torch.dtype]:
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    return sorted(dtypes, key=str)
