"""Attention inputs out of any torch model while it trains or serves, its code untouched.

Modules are hooked, calls of scaled_dot_product_attention are seen by a function mode, and those of
transformers' models through the table they ask. Off, nothing of this is there.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch
from torch import nn

from assay.captures.manifest import Scalar
from assay.captures.recording import Recording
from assay.captures.recording.counts import RecordingReport
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store
from assay.captures.torch import compiled, functions, layer, mark
from assay.captures.torch import transformers as torch_transformers
from assay.captures.torch.functions import ModeSwitch
from assay.captures.torch.sites import Site, Sites, unwrapped
from assay.captures.torch.taking import Taking
from assay.errors import BadInput


class TorchCapture:
    """One capture of one model. Use it with `with`.

    A step is one call of the whole model, counted from 0; setting `step` before a call says which
    it is (for steps of several calls), and counting ends.
    """

    def __init__(
        self,
        model: nn.Module,
        store: Store,
        options: CaptureOptions,
        *,
        run: str | None = None,
        about: Mapping[str, Scalar] | None = None,  # more to tell of the model in the manifest
    ) -> None:
        self.store = store
        root = unwrapped(model)
        self._root = root
        self._recording = Recording(
            store,
            run=run,
            rank=_rank(),
            model=_identity(root) | dict(about or {}),
            config=_configuration(root),
            options=options,
        )
        self._sites = Sites(root, options.sites)
        number = compiled.number_of(root)
        self._taking = Taking(self._recording, self._sites, number)
        self._mark = number, tuple(site.number for site in self._sites.hooked)
        self._mode = ModeSwitch()
        self._undo = ExitStack()

    @property
    def run(self) -> str:
        """The name of this run in the store."""
        return self._recording.run

    @property
    def step(self) -> int:
        return self._taking.step

    @step.setter
    def step(self, number: int) -> None:
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise BadInput(f"step {number!r} is not a whole number from 0 on")
        self._taking.set_step(number)

    def report(self) -> RecordingReport:
        """What was captured and what was dropped; exact behind the `with`."""
        return self._recording.report()

    def __enter__(self) -> "TorchCapture":
        self._recording.__enter__()
        try:
            self._open()
        except BaseException:
            self._undo.close()
            self._recording.close()
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
        undo = self._undo.callback
        undo(self._taking.close)
        compiled.listen(self._taking.model, self._taking)
        undo(compiled.stop, self._taking.model)
        for module, places in (
            (functions, functions.places(self._root)),
            (torch_transformers, torch_transformers.places()),
        ):
            module.patch.add(self._taking, places)
            undo(module.patch.remove, self._taking)
        undo(self._mode.close)
        for site in self._sites.hooked:
            self._hook(site.module, *_site_hooks(self._taking, site))
        self._hook(self._root, *_model_hooks(self._taking, self._mode), whole=True)
        mark.begin(*self._mark)
        undo(mark.end, *self._mark)

    def _hook(
        self, module: nn.Module, begins: Callable, ends: Callable, *, whole: bool = False
    ) -> None:
        """Those of the whole model lie around any others, and hear also of a call that fails."""
        hook = module.register_forward_pre_hook(begins, with_kwargs=True, prepend=whole)
        self._undo.callback(hook.remove)
        hook = module.register_forward_hook(ends, with_kwargs=True, always_call=whole)
        self._undo.callback(hook.remove)


def _model_hooks(taking: Taking, mode: ModeSwitch) -> tuple[Callable, Callable]:
    model = taking.model

    def before(module: nn.Module, args: Any, kwargs: Any) -> None:
        training = module.training and torch.is_grad_enabled()
        if torch.compiler.is_compiling():
            compiled.tell("model begins", model, scalars={"training": training})
            return
        taking.begin_model(training=training)
        if taking.needs_mode():
            mode.on()

    def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            compiled.tell("model ends", model)
            return
        if taking.end_model():
            mode.off()

    return before, after


def _site_hooks(taking: Taking, site: Site) -> tuple[Callable, Callable]:
    model, number = taking.model, site.number

    def before(module: nn.Module, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            tensors, past, cached = layer.given(module, args, kwargs)
            compiled.tell("site begins", model, number, tensors, {"cached": cached}, past)
        elif taking.wants(site):
            tensors, past, cached = layer.given(module, args, kwargs)
            taking.enter(site, tensors, past, cached=cached)
        else:
            taking.enter_unwanted(site)

    def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        out = layer.gave(output)
        if torch.compiler.is_compiling():
            tensors = {} if out is None else {"layer_out": out}
            compiled.tell("site ends", model, number, tensors)
        else:
            taking.leave(site, out)

    return before, after


def _rank() -> int:
    distributed = torch.distributed
    there = distributed.is_available() and distributed.is_initialized()
    return distributed.get_rank() if there else 0


def _identity(model: nn.Module) -> dict[str, Scalar]:
    config = getattr(model, "config", None)
    name = getattr(config, "_name_or_path", None)
    return {
        "class": type(model).__name__,
        "name": name or None,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def _configuration(model: nn.Module) -> dict[str, Scalar]:
    """The plain values of a transformers configuration."""
    config = getattr(model, "config", None)
    told = config.to_dict() if hasattr(config, "to_dict") else {}
    plain = {name: value for name, value in told.items() if isinstance(value, Scalar)}
    found = getattr(config, "_attn_implementation", None)
    return plain | ({"attn_implementation": found} if found else {})
