"""Sees every call of torch's scaled_dot_product_attention, wherever a model calls it from.

A mode costs a little with every torch function, so it is on only where it is needed: during calls
of the model that are captured and, for programs that torch.compile makes, for the whole context.
Compiled programs ask on each call which kinds of modes are on: this makes torch.compile trace the
model anew inside the context, and use its old program again behind it.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.overrides import TorchFunctionMode

from assay.capture import torch_call, torch_compiled

if TYPE_CHECKING:
    from assay.capture.torch_taking import Taking


class SeesAttention(TorchFunctionMode):
    """Tells a Taking of the calls. A kind of its own for each set of hooked modules: `kind_for`."""

    def __init__(self, taking: "Taking", model: int) -> None:
        super().__init__()
        self.taking = taking
        self.model = model

    def __torch_function__(
        self, func: Callable, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch_call.SDPA:
            if torch.compiler.is_compiling():
                return _traced(func, args, kwargs, self.model)
            return _seen(self.taking, func, args, kwargs)
        if func is tag_activation_checkpoint:  # only torch.compile calls it
            return _checkpointed(self, func, args, kwargs)
        return func(*args, **kwargs)


@cache
def kind_for(model: int, sites: tuple[int, ...]) -> type[SeesAttention]:
    """Compiled programs tell modes apart by their class alone."""
    return type("SeesAttention", (SeesAttention,), {"sites": (model, sites)})


def _seen(taking: "Taking", func: Callable, args: Any, kwargs: Any) -> Any:
    draft = taking.begin_call(_query(args, kwargs))
    if draft is None:
        return func(*args, **kwargs)
    draft.add_call(*torch_call.of_sdpa(args, kwargs), why={})
    out = func(*args, **kwargs)
    taking.end_call(draft, out)
    return out


def _query(args: Any, kwargs: Any) -> torch.Tensor:
    return args[0] if args else kwargs["query"]


def _traced(func: Callable, args: Any, kwargs: Any, model: int) -> Any:
    out = func(*args, **kwargs)
    tensors, scalars = torch_call.of_sdpa(args, kwargs)
    tensors["out"] = out
    torch_compiled.tell("call", model, torch_compiled.NO_SITE, tensors, scalars)
    return out


def _checkpointed(mode: SeesAttention, func: Callable, args: Any, kwargs: Any) -> Any:
    """torch.compile traces what is checkpointed with this mode off: switch it on again."""
    body, *rest = args

    def seen(*inputs: Any, **more: Any) -> Any:
        with mode:
            return body(*inputs, **more)

    return func(seen, *rest, **kwargs)


def push(mode: SeesAttention) -> None:
    """Switch the mode on, on top of all others of this thread."""
    mode.__enter__()


def remove(mode: SeesAttention) -> None:
    """Switch the mode off wherever it is on the stack of this thread."""
    above = []
    while torch._C._len_torch_function_stack():
        found = torch._C._pop_torch_function_stack()
        if found is mode:
            break
        above.append(found)
    for other in reversed(above):
        torch._C._push_on_torch_function_stack(other)
