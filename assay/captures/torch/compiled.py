"""How a program that torch.compile has made tells what it computes.

While torch.compile traces a model, what the hooks would do becomes calls of one operator, which
has an effect and so is neither dropped nor moved past another. When the program runs, the operator
tells whoever listens to the model's number. Without a listener it does nothing.
"""

import itertools
import weakref
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from assay.captures.torch.call import Scalars, Tensors

NO_SITE = -1
NO_CACHE = -1
_NOTHING = "-"


class Listener(Protocol):
    """What hears a running program."""

    def heard(
        self, moment: str, site: int, tensors: Tensors, scalars: Scalars, past: int | None
    ) -> None: ...


_listeners: dict[int, Listener] = {}
_numbers: "weakref.WeakKeyDictionary[nn.Module, int]" = weakref.WeakKeyDictionary()
_next = itertools.count()


def number_of(model: nn.Module) -> int:
    """A number that stays with the model, so that programs traced in one context serve the next."""
    return _numbers.setdefault(model, next(_next))


def listen(model: int, listener: Listener) -> None:
    """Hear what programs of the model tell, until `stop`."""
    _define()
    _listeners[model] = listener


def stop(model: int) -> None:
    """Hear no more."""
    _listeners.pop(model, None)


def tell(
    moment: str,
    model: int,
    site: int = NO_SITE,
    tensors: Tensors | None = None,
    scalars: Scalars | None = None,
    past: int | None = None,
) -> None:
    """Write into the traced program that it is to tell this."""
    names, given = "", []
    for name, tensor in (tensors or {}).items():
        names += f"{name} "
        given.append(tensor.detach())
    if not given:
        # Inductor writes kernels that are not finished behind an operator without tensors.
        names, given = f"{_NOTHING} ", [torch.empty(0)]
    words, numbers = "", []
    for name, value in (scalars or {}).items():
        if isinstance(value, str):
            words += f"{name}:{value} "
        elif isinstance(value, bool):
            words += f"{name}?{int(value)} "
        elif value is not None:
            words += f"{name}# "
            numbers.append(float(value))
    torch.ops.assay.saw(
        moment, model, site, names, given, words, numbers, NO_CACHE if past is None else past
    )


@cache
def _define() -> None:
    """Make the operator known to torch, once in a process."""
    tags = [tag] if (tag := getattr(torch.Tag, "cudagraph_unsafe", None)) is not None else []
    operator = torch.library.custom_op("assay::saw", _saw, mutates_args=(), tags=tags)
    operator.register_fake(_saw_nothing)
    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

    _register_effectful_op(torch.ops.assay.saw.default, _EffectType.ORDERED)


def _saw(
    moment: str,
    model: int,
    site: int,
    names: str,
    tensors: list[Tensor],
    words: str,
    numbers: list[float],
    past: int,
) -> None:
    listener = _listeners.get(model)
    if listener is None:
        return
    given = dict(zip(names.split(), tensors, strict=True))
    given.pop(_NOTHING, None)
    listener.heard(moment, site, given, _scalars(words, numbers), None if past < 0 else past)


def _saw_nothing(*_: Any) -> None:
    """While tracing there are no values."""


def _scalars(words: str, numbers: list[float]) -> Scalars:
    found: Scalars = {}
    waiting = iter(numbers)
    for word in words.split():
        if word.endswith("#"):
            found[word[:-1]] = next(waiting)
        elif "?" in word:
            name, _, value = word.partition("?")
            found[name] = value == "1"
        else:
            name, _, text = word.partition(":")
            found[name] = text
    return found
