"""Attention inputs out of any torch model while it trains or serves, its code untouched.

Modules are hooked, calls of scaled_dot_product_attention are seen by a patch and a function mode,
and those of transformers' models through their attention interface. Off, none of this is there.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch
from torch import nn

from assay.captures.manifest import RunSummary, Scalar
from assay.captures.recording import Recording
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store
from assay.captures.torch import compiled, functions
from assay.captures.torch import transformers as torch_transformers
from assay.captures.torch.functions import ModeSwitch
from assay.captures.torch.recorder import TorchRecorder
from assay.captures.torch.sites import Site, Sites, module_inputs, module_output, unwrapped
from assay.errors import BadInput


class TorchCapture:
    """One capture of one model. Use it with `with`.

    A step is one call of the whole model, counted from 0. Setting `step` before a call says which
    it is (for steps of several calls), and counting ends.
    """

    def __init__(
        self,
        model: nn.Module,
        store: Store,
        options: CaptureOptions,
        *,
        run: str | None = None,
        about: Mapping[str, Scalar] | None = None,  # more about the model for the manifest
    ) -> None:
        self.store = store
        self._root = unwrapped(model)
        self._recording = Recording(
            store,
            run=run,
            rank=_rank(),
            model=_identity(self._root) | dict(about or {}),
            config=_configuration(self._root),
            options=options,
        )
        self._sites = Sites(self._root, options.sites)
        self._recorder = TorchRecorder(self._recording, self._sites, compiled.number_of(self._root))
        self._mode = ModeSwitch()
        self._undo = ExitStack()

    @property
    def run(self) -> str:
        """Name of this run in the store."""
        return self._recording.run

    @property
    def step(self) -> int:
        return self._recorder.step

    @step.setter
    def step(self, number: int) -> None:
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise BadInput(f"step {number!r} is not a whole number from 0 on")
        self._recorder.set_step(number)

    def report(self) -> RunSummary:
        """Records captured and dropped; exact after the `with`."""
        return self._recording.report()

    def __enter__(self) -> "TorchCapture":
        self._recording.__enter__()
        try:
            self._open()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._undo.close()
        finally:
            self._recording.close()

    def _open(self) -> None:
        undo, recorder = self._undo.callback, self._recorder
        undo(recorder.close)
        compiled.subscribe(recorder.model, recorder)
        undo(compiled.unsubscribe, recorder.model)
        for patch, locations in (
            (functions.patch, functions.locations(self._root)),
            (torch_transformers.patch, torch_transformers.locations()),
        ):
            patch.add(recorder, locations)
            undo(patch.remove, recorder)
        undo(self._mode.close)
        for site in self._sites.hooked:
            self._hook(site.module, *_site_hooks(recorder, site))
        self._hook(self._root, *_model_hooks(recorder, self._mode), whole=True)
        captured = recorder.model, tuple(site.number for site in self._sites.hooked)
        compiled.set_guard(captured)
        undo(compiled.clear_guard, captured)

    def _hook(
        self, module: nn.Module, before: Callable, after: Callable, *, whole: bool = False
    ) -> None:
        """Hook a module; hooks of the whole model surround others, and run after a failure too."""
        hook = module.register_forward_pre_hook(before, with_kwargs=True, prepend=whole)
        self._undo.callback(hook.remove)
        hook = module.register_forward_hook(after, with_kwargs=True, always_call=whole)
        self._undo.callback(hook.remove)


def _model_hooks(recorder: TorchRecorder, mode: ModeSwitch) -> tuple[Callable, Callable]:
    model = recorder.model

    def before(module: nn.Module, args: Any, kwargs: Any) -> None:
        training = module.training and torch.is_grad_enabled()
        if torch.compiler.is_compiling():
            compiled.emit("model begins", model, scalars={"training": training})
            return
        recorder.begin_model(training=training)
        if recorder.needs_mode():
            mode.on()

    def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            compiled.emit("model ends", model)
            return
        if recorder.end_model():
            mode.off()

    return before, after


def _site_hooks(recorder: TorchRecorder, site: Site) -> tuple[Callable, Callable]:
    model, number = recorder.model, site.number

    def before(module: nn.Module, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            tensors, past, cached = module_inputs(module, args, kwargs)
            compiled.emit("site begins", model, number, tensors, {"cached": cached}, past)
        elif recorder.wants(site):
            tensors, past, cached = module_inputs(module, args, kwargs)
            recorder.enter_site(site, tensors, past, cached=cached)
        else:
            recorder.enter_site(site)

    def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        out = module_output(output)
        if torch.compiler.is_compiling():
            tensors = {} if out is None else {"layer_out": out}
            compiled.emit("site ends", model, number, tensors)
        else:
            recorder.leave_site(site, out)

    return before, after


def _rank() -> int:
    distributed = torch.distributed
    initialized = distributed.is_available() and distributed.is_initialized()
    return distributed.get_rank() if initialized else 0


def _identity(model: nn.Module) -> dict[str, Scalar]:
    """Class, name and size of a model."""
    config = getattr(model, "config", None)
    return {
        "class": type(model).__name__,
        "name": getattr(config, "_name_or_path", None) or None,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def _configuration(model: nn.Module) -> dict[str, Scalar]:
    """Plain values of a transformers configuration."""
    config = getattr(model, "config", None)
    values = config.to_dict() if hasattr(config, "to_dict") else {}
    plain = {name: value for name, value in values.items() if isinstance(value, Scalar)}
    attention = getattr(config, "_attn_implementation", None)
    return plain | ({"attn_implementation": attention} if attention else {})
