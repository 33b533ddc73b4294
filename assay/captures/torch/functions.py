"""Sees every call of torch's scaled_dot_product_attention that a model makes.

The name is replaced in torch.nn.functional and in the files of the model's classes: this also
reaches programs that torch.compile traces. A function mode sees what is called by any other way. A
mode costs a little with every torch function and hinders torch.compile, so it is on only while a
call of the model is captured, and no longer once torch.compile is at work.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from assay.captures.torch import call as torch_call
from assay.captures.torch import compiled as torch_compiled
from assay.captures.torch.patches import Patch

if TYPE_CHECKING:
    from assay.captures.torch.taking import Taking

_SDPA = functional.scaled_dot_product_attention


def scaled_dot_product_attention(*args: Any, **kwargs: Any) -> torch.Tensor:
    """In place of torch's, which it calls."""
    if torch.compiler.is_compiling():
        out = _SDPA(*args, **kwargs)
        tensors, scalars = torch_call.of_sdpa(args, kwargs)
        tensors["out"] = out
        for taking in patch.takings:
            torch_compiled.tell("call", taking.model, torch_compiled.NO_SITE, tensors, scalars)
        return out
    for taking in patch.takings:
        draft = taking.begin_call(args[0] if args else kwargs["query"])
        if draft is not None:
            return _seen(taking, draft, args, kwargs)
    return _SDPA(*args, **kwargs)


patch = Patch(scaled_dot_product_attention)


def places(model: nn.Module) -> Iterator[tuple[Any, str]]:
    """Where the function lies under a name that code of the model may use."""
    yield functional, _SDPA.__name__
    for name in {type(module).__module__ for module in model.modules()}:
        owner = sys.modules.get(name)
        for known, value in list(vars(owner).items()) if owner else ():
            if value is _SDPA and owner is not functional:
                yield owner, known


def _seen(taking: "Taking", draft: Any, args: Any, kwargs: Any) -> torch.Tensor:
    tensors, scalars = torch_call.of_sdpa(args, kwargs)
    draft.add_call(tensors, scalars, {})
    with taking.one_call():
        out = _SDPA(*args, **kwargs)
    taking.end_call(draft, out)
    return out


class SeesAttention(TorchFunctionMode):
    """Hands calls of the function to its replacement."""

    def __torch_function__(
        self, func: Callable, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is _SDPA:
            return scaled_dot_product_attention(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


class ModeSwitch:
    """Switches a mode on and off, in the thread that made it, as long as nothing is compiled."""

    def __init__(self) -> None:
        self._mode = SeesAttention()
        self._thread = threading.get_ident()
        self._is_on = False
        self._watches = False
        self._compiles = False

    def on(self) -> None:
        if self._compiles or self._is_on or threading.get_ident() != self._thread:
            return
        if not self._watches:
            from torch._dynamo import callback

            callback.on_compile_start(self._compiling)
            self._watches = True
        self._mode.__enter__()
        self._is_on = True

    def off(self) -> None:
        if self._is_on and threading.get_ident() == self._thread:
            _remove(self._mode)
            self._is_on = False

    def close(self) -> None:
        """Leave no trace."""
        self.off()
        if self._watches:
            from torch._dynamo import callback

            callback.callback_handler.remove_start_callback(self._compiling)
            self._watches = False

    def _compiling(self, _: Any) -> None:
        """torch.compile begins; this comes before it looks at which modes are on."""
        if threading.get_ident() == self._thread:
            self._compiles = True
            self.off()


def _remove(mode: TorchFunctionMode) -> None:
    """Take a mode from the stack of this thread, wherever it is there."""
    above = []
    while torch._C._len_torch_function_stack():
        found = torch._C._pop_torch_function_stack()
        if found is mode:
            break
        above.append(found)
    for other in reversed(above):
        torch._C._push_on_torch_function_stack(other)
