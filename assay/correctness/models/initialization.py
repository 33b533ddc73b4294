"""Recording of initial values while a model is constructed: which were set on purpose, and kept.

When a module becomes part of another, what its constructor did to its weights beyond torch's
defaults is deliberate, and so is what a constructor did before it starts a pass over all modules. A
pass that changes most matrices is a general initialization and not deliberate.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook

from assay.correctness.models.preserved_values import (
    is_preserved,
    is_relation_preserved,
    median_spread,
)


@dataclass(frozen=True, kw_only=True)
class DeliberateValue:
    """A value that a module of class `owner` put into a weight."""

    weight: nn.Parameter
    value: torch.Tensor
    owner: str


class InitializationRecorder:
    """Watches constructors of modules within `recording`."""

    def __init__(self) -> None:
        self.deliberate: list[DeliberateValue] = []
        self._known: dict[int, tuple[nn.Parameter, torch.Tensor]] = {}
        self._applying = False

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Replace what constructors call; memory that is not filled holds NaN."""
        methods = [(cls, "reset_parameters", self._on_default) for cls in _classes_with_defaults()]
        methods += [
            (nn.Module, "apply", self._on_apply),
            (nn.Module, "named_modules", self._on_named_modules),
        ]
        with ExitStack() as stack:
            stack.enter_context(_nan_memory())
            hook = register_module_module_registration_hook(self._on_registration)
            stack.callback(hook.remove)
            for owner, name, handler in methods:
                replacement = _handled(getattr(owner, name), handler)
                stack.enter_context(mock.patch.object(owner, name, replacement))
            yield

    def _on_default(self, original: Callable, module: nn.Module, *args: Any) -> None:
        """Torch's own initial values."""
        original(*args)
        for weight in _own_weights(module):
            self._remember(weight)

    def _on_named_modules(
        self,
        original: Callable,
        module: nn.Module,
        memo: set | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """A pass over all modules; with a memo it is a part of one."""
        if memo is None:
            self._before_pass(module)
        return original(memo, *args, **kwargs)

    def _on_apply(self, original: Callable, module: nn.Module, function: Callable) -> Any:
        """A general initialization. It can reach weights of the user's own classes only by naming
        these classes, so it means to set them."""
        if self._applying:
            return original(function)
        self._before_pass(module)
        self._applying = True
        try:
            result = original(function)
        finally:
            self._applying = False
        named = [w for part in _modules(module) if _is_user_class(part) for w in _own_weights(part)]
        replaced = {id(weight) for weight in named if self._is_changed(weight)}
        self.deliberate = [value for value in self.deliberate if id(value.weight) not in replaced]
        for weight in self._weights(module):
            if self._is_changed(weight):
                self._remember(weight)
        return result

    def _on_registration(self, parent: nn.Module, name: str, module: nn.Module | None) -> None:
        """A module becomes part of another, so its constructor is done. A layer of torch is still
        in the hands of the constructor around it."""
        if not isinstance(module, nn.Module) or _is_torch_layer(module):
            return
        for weight in self._weights(module):
            if self._is_changed(weight):
                self._record(weight, module)

    def _weights(self, module: nn.Module) -> list[nn.Parameter]:
        """All weights below a module; those of copied torch layers are known from now on."""
        weights = []
        for part in _modules(module):
            for weight in _own_weights(part):
                if id(weight) not in self._known and _is_torch_layer(part):
                    self._remember(weight)
                weights.append(weight)
        return weights

    def _before_pass(self, module: nn.Module) -> None:
        """Changes since then are deliberate, unless they are most of the matrices there are."""
        weights = self._weights(module)
        matrices = [weight for weight in weights if weight.ndim >= 2]
        changed = [weight for weight in weights if self._is_changed(weight)]
        changed_matrices = [w for w in changed if id(w) in self._known and w.ndim >= 2]
        general = 2 * len(changed_matrices) > len(matrices)
        own = {id(weight) for weight in _own_weights(module)}
        for weight in changed:
            placeholder = id(weight) in own and not weight.detach().any()
            if general or placeholder:
                self._remember(weight)
            else:
                self._record(weight, module)

    def _is_changed(self, weight: nn.Parameter) -> bool:
        """Return True for a weight that is filled, and otherwise than when last seen."""
        if weight.is_meta or not weight.is_floating_point() or weight.detach().isnan().any():
            return False
        known = self._known.get(id(weight))
        return known is None or not torch.equal(known[1], weight.detach())

    def _record(self, weight: nn.Parameter, owner: nn.Module) -> None:
        self._remember(weight)
        value = self._known[id(weight)][1]
        owner_name = type(owner).__name__
        self.deliberate.append(DeliberateValue(weight=weight, value=value, owner=owner_name))

    def _remember(self, weight: nn.Parameter) -> None:
        self._known[id(weight)] = (weight, weight.detach().clone())


@dataclass(frozen=True, kw_only=True)
class ConstructedModel:
    """A newly constructed model, and what became of its deliberate initial values."""

    model: nn.Module
    deliberate_count: int  # weights with a deliberate value
    overwritten: dict[str, str]  # weights that lost theirs, each with who had set what
    unfilled: list[str]  # weights that nothing was put into


def construct_recorded(make: Callable[[], nn.Module]) -> ConstructedModel:
    """Construct a model while its initialization is recorded."""
    recorder = InitializationRecorder()
    with recorder.recording():
        model = make()
    return ConstructedModel(
        model=model,
        deliberate_count=len({id(value.weight) for value in recorder.deliberate}),
        overwritten=_overwritten(recorder, model),
        unfilled=[name for name, weight in model.named_parameters() if weight.isnan().any()],
    )


def _overwritten(recorder: InitializationRecorder, model: nn.Module) -> dict[str, str]:
    names = {id(weight): name for name, weight in model.named_parameters()}
    usual = median_spread(weight.detach() for weight in model.parameters())
    deliberate = [value for value in recorder.deliberate if id(value.weight) in names]
    overwritten = {}
    for initial in deliberate:
        value, final = initial.value, initial.weight.detach()
        if torch.equal(value, final):
            continue
        others = [(o.value, o.weight.detach()) for o in deliberate if o is not initial]
        preserved = is_preserved(value, final, usual_spread=usual)
        if not preserved or not is_relation_preserved(value, final, others):
            name = names[id(initial.weight)]
            overwritten[name] = f"{initial.owner} had set to {_value_text(value)}"
    return overwritten


@contextmanager
def _nan_memory() -> Iterator[None]:
    """Fill memory that torch.empty gives with NaN."""
    enabled = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fills = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
        torch.utils.deterministic.fill_uninitialized_memory = fills


def _handled(method: Callable, handler: Callable) -> Callable:
    """A method that calls `handler` with the bound original as its first argument."""

    def replacement(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return handler(partial(method, module), module, *args, **kwargs)

    return replacement


def _value_text(value: torch.Tensor) -> str:
    if value.numel() == 1 or value.min() == value.max():
        return f"{float(value.flatten()[0]):.3g}"
    return f"values that spread by {float(value.std()):.2g}"


def _is_torch_layer(module: nn.Module) -> bool:
    return _is_torch_class(type(module))


def _is_torch_class(module_class: type) -> bool:
    return module_class.__module__.split(".")[0] == "torch"


def _is_user_class(module: nn.Module) -> bool:
    """Return True for a class of the user's that extends no layer of torch."""
    bases = [base for base in type(module).__mro__ if _is_torch_class(base)]
    return not _is_torch_layer(module) and bases[0] is nn.Module


def _own_weights(module: nn.Module) -> list[nn.Parameter]:
    return [weight for weight in module._parameters.values() if weight is not None]


def _modules(module: nn.Module) -> Iterator[nn.Module]:
    """A module and all below it, by another way than the methods that are replaced."""
    yield module
    for child in module._modules.values():
        if child is not None:
            yield from _modules(child)


def _classes_with_defaults() -> list[type]:
    """Modules of torch that fill their weights themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classes = [value for value in vars(nn).values() if isinstance(value, type)]
    bases = {base for cls in classes for base in cls.__mro__ if issubclass(base, nn.Module)}
    return [base for base in bases if "reset_parameters" in vars(base)]
