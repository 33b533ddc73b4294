"""Calls of torch's scaled_dot_product_attention that a model makes.

The name is replaced in torch.nn.functional and in the files of the model's classes: this also
reaches programs that torch.compile traces. A function mode sees what is called by any other way. A
mode costs a little with every torch function and hinders torch.compile, so it is on only while a
call of the model is captured, and no longer once torch.compile is at work.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from assay.captures.torch import compiled
from assay.captures.torch.recorder import TorchRecorder
from assay.captures.torch.sites import Scalars, Tensors

_SDPA = functional.scaled_dot_product_attention


class Patch:
    """One function, replaced wherever a capture locates it until the last capture ends.

    `recorders` are those of the captures that are on: the replacement reports to them.
    """

    def __init__(self, replacement: Callable) -> None:
        self.recorders: list[TorchRecorder] = []
        self._replacement = replacement
        self._replaced: list[tuple[Any, str, Any]] = []

    @property
    def original(self) -> Callable:
        """The function that was replaced first."""
        return self._replaced[0][2]

    def add(self, recorder: TorchRecorder, locations: Iterable[tuple[Any, str]]) -> None:
        """Replace the attribute `name` of `owner`, for each (owner, name)."""
        self.recorders.append(recorder)
        for owner, name in locations:
            original = getattr(owner, name)
            if original is not self._replacement:
                self._replaced.append((owner, name, original))
                setattr(owner, name, self._replacement)

    def remove(self, recorder: TorchRecorder) -> None:
        """Undo `add`; what another capture still needs stays."""
        if recorder in self.recorders:
            self.recorders.remove(recorder)
        if not self.recorders:
            while self._replaced:
                owner, name, original = self._replaced.pop()
                setattr(owner, name, original)


def scaled_dot_product_attention(*args: Any, **kwargs: Any) -> Tensor:
    """Call torch's function, in whose place it stands, and report the call."""
    if torch.compiler.is_compiling():
        out = _SDPA(*args, **kwargs)
        tensors, scalars = sdpa_call(args, kwargs)
        tensors["out"] = out
        for recorder in patch.recorders:
            compiled.emit("call", recorder.model, compiled.NO_SITE, tensors, scalars)
        return out
    for recorder in patch.recorders:
        builder = recorder.begin_call(args[0] if args else kwargs["query"])
        if builder is not None:
            tensors, scalars = sdpa_call(args, kwargs)
            builder.add_call(tensors, scalars, {})
            with recorder.within_call():
                out = _SDPA(*args, **kwargs)
            recorder.end_call(builder, out)
            return out
    return _SDPA(*args, **kwargs)


patch = Patch(scaled_dot_product_attention)


def locations(model: nn.Module) -> Iterator[tuple[Any, str]]:
    """Owners and names of the function that code of the model may use."""
    yield functional, _SDPA.__name__
    for module_name in {type(module).__module__ for module in model.modules()}:
        owner = sys.modules.get(module_name)
        for name, value in list(vars(owner).items()) if owner else ():
            if value is _SDPA and owner is not functional:
                yield owner, name


def sdpa_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensors, Scalars]:
    """Tensors and scalars of a call of scaled_dot_product_attention, as its kernel gets them.

    k and v keep their own number of heads. Also traced by torch.compile, so it is plain.
    """
    query, key, value, mask, dropout, causal, scale, _ = _sdpa_arguments(*args, **kwargs)
    tensors = {"q": query, "k": key, "v": value}
    if mask is not None:
        tensors["mask"] = mask
    scalars: Scalars = {
        "implementation": "sdpa",
        "causal": causal,
        "alignment": "top-left",  # of torch's is_causal, where there are more keys than queries
        "scale": query.shape[-1] ** -0.5 if scale is None else scale,
        "dropout": dropout,
    }
    return autocast(tensors, query.device.type), scalars


def _sdpa_arguments(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Any, ...]:
    return query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa


def autocast(tensors: Tensors, device: str) -> Tensors:
    """Tensors as autocast hands them to scaled_dot_product_attention; a mode sees them before."""
    if not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return {name: _cast(tensor, dtype) for name, tensor in tensors.items()}


def _cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    if tensor.is_floating_point() and tensor.dtype != torch.float64:
        return tensor.detach().to(dtype)
    return tensor


class SdpaMode(TorchFunctionMode):
    """Function mode that hands calls of scaled_dot_product_attention to the replacement."""

    def __torch_function__(
        self, func: Callable, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is _SDPA:
            return scaled_dot_product_attention(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


class ModeSwitch:
    """Switches the mode on and off, in the thread that made it, as long as nothing is compiled."""

    def __init__(self) -> None:
        self._mode = SdpaMode()
        self._thread = threading.get_ident()
        self._is_on = False
        self._watches_compiler = False
        self._compiles = False

    def on(self) -> None:
        if self._compiles or self._is_on or threading.get_ident() != self._thread:
            return
        if not self._watches_compiler:
            from torch._dynamo import callback

            callback.on_compile_start(self._on_compile_start)
            self._watches_compiler = True
        self._mode.__enter__()
        self._is_on = True

    def off(self) -> None:
        if self._is_on and threading.get_ident() == self._thread:
            _remove(self._mode)
            self._is_on = False

    def close(self) -> None:
        """Switch off and stop watching the compiler."""
        self.off()
        if self._watches_compiler:
            from torch._dynamo import callback

            callback.callback_handler.remove_start_callback(self._on_compile_start)
            self._watches_compiler = False

    def _on_compile_start(self, _: Any) -> None:
        """Switch off for good; torch.compile looks at which modes are on after this."""
        if threading.get_ident() == self._thread:
            self._compiles = True
            self.off()


def _remove(mode: TorchFunctionMode) -> None:
    """Take a mode from this thread's stack, wherever it stands in it."""
    above = []
    while torch._C._len_torch_function_stack():
        top = torch._C._pop_torch_function_stack()
        if top is mode:
            break
        above.append(top)
    for other in reversed(above):
        torch._C._push_on_torch_function_stack(other)
