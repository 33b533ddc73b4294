"""Watches a model being made: which weights hold what somebody put there on purpose.

When a module becomes part of another, what its constructor did to its weights beyond what torch
did is deliberate, and so is what a constructor did before it starts a pass over all modules. A
pass that changes most matrices is a general start and not deliberate.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook

from assay.correctness.models.kept_values import kept, relation_kept, usual_spread


@dataclass(frozen=True, kw_only=True)
class Deliberate:
    """A value that `owner` put into a weight."""

    weight: nn.Parameter
    value: torch.Tensor
    owner: str


class Construction:
    """Within it, the making of modules is watched. Memory that is not filled holds NaN."""

    def __init__(self) -> None:
        self.deliberate: list[Deliberate] = []
        self._known: dict[int, tuple[nn.Parameter, torch.Tensor]] = {}
        self._undo: list[Callable[[], None]] = []
        self._applying = False

    def __enter__(self) -> "Construction":
        self._fill_memory()
        self._undo.append(register_module_module_registration_hook(self._registered).remove)
        for kind in _with_defaults():
            self._replace(kind, "reset_parameters", self._with_default)
        self._replace(nn.Module, "apply", self._with_apply)
        self._replace(nn.Module, "named_modules", self._with_pass)
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for undo in reversed(self._undo):
            undo()

    def _fill_memory(self) -> None:
        was = torch.are_deterministic_algorithms_enabled()
        only_warn = torch.is_deterministic_algorithms_warn_only_enabled()
        fills = torch.utils.deterministic.fill_uninitialized_memory

        def undo() -> None:
            torch.use_deterministic_algorithms(was, warn_only=only_warn)
            torch.utils.deterministic.fill_uninitialized_memory = fills

        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = True
        self._undo.append(undo)

    def _replace(self, kind: type, name: str, act: Callable) -> None:
        """Call `act` with the original method in its place."""
        original = getattr(kind, name)

        def watched(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            return act(partial(original, module), module, *args, **kwargs)

        setattr(kind, name, watched)
        self._undo.append(lambda: setattr(kind, name, original))

    def _with_default(self, original: Callable, module: nn.Module, *args: Any) -> None:
        """What torch itself puts there."""
        original(*args)
        for weight in _own(module):
            self._remember(weight)

    def _with_pass(
        self,
        original: Callable,
        module: nn.Module,
        memo: set | None = None,
        *args: Any,
        **rest: Any,
    ) -> Any:
        """A walk through all modules; with a memo it is a part of one."""
        if memo is None:
            self._pass_begins(module)
        return original(memo, *args, **rest)

    def _with_apply(self, original: Callable, module: nn.Module, act: Callable) -> Any:
        """A general start. It also reaches weights that belong to a class of the user's own, and
        can do so only by naming that class, so those it means to set."""
        if self._applying:
            return original(act)
        self._pass_begins(module)
        self._applying = True
        try:
            result = original(act)
        finally:
            self._applying = False
        meant = [w for part in _below(module) if _of_no_kind(part) for w in _own(part)]
        replaced = {id(weight) for weight in meant if self._news(weight)}
        self.deliberate = [one for one in self.deliberate if id(one.weight) not in replaced]
        for weight in self._seen(module):
            if self._news(weight):
                self._remember(weight)
        return result

    def _registered(self, parent: nn.Module, name: str, module: nn.Module | None) -> None:
        """A module becomes part of another, so its constructor is done. One of torch's is still
        in the hands of the constructor around it."""
        if not isinstance(module, nn.Module) or _of_torch(module):
            return
        for weight in self._seen(module):
            if self._news(weight):
                self._note(weight, module)

    def _seen(self, module: nn.Module) -> list[nn.Parameter]:
        """All weights below a module; those of torch that were copied are known from now on."""
        found = []
        for part in _below(module):
            for weight in _own(part):
                if id(weight) not in self._known and _of_torch(part):
                    self._remember(weight)
                found.append(weight)
        return found

    def _pass_begins(self, module: nn.Module) -> None:
        """What changed since is deliberate, unless it is most of the matrices there are."""
        weights = self._seen(module)
        matrices = [weight for weight in weights if weight.ndim >= 2]
        changed = [weight for weight in weights if self._news(weight)]
        known = [w for w in changed if id(w) in self._known and w.ndim >= 2]
        general = 2 * len(known) > len(matrices)
        own = {id(weight) for weight in _own(module)}
        for weight in changed:
            placeholder = id(weight) in own and not weight.detach().any()
            if general or placeholder:
                self._remember(weight)
            else:
                self._note(weight, module)

    def _news(self, weight: nn.Parameter) -> bool:
        """Whether a weight is filled, and otherwise than when it was last seen."""
        if weight.is_meta or not weight.is_floating_point() or weight.detach().isnan().any():
            return False
        known = self._known.get(id(weight))
        return known is None or not torch.equal(known[1], weight.detach())

    def _note(self, weight: nn.Parameter, by: nn.Module) -> None:
        self._remember(weight)
        value = self._known[id(weight)][1]
        self.deliberate.append(Deliberate(weight=weight, value=value, owner=type(by).__name__))

    def _remember(self, weight: nn.Parameter) -> None:
        self._known[id(weight)] = (weight, weight.detach().clone())


@dataclass(frozen=True, kw_only=True)
class Made:
    """A model, and what was seen when it had just been made."""

    model: nn.Module
    deliberate: int  # weights that hold what somebody put there on purpose, or should
    overwritten: dict[str, str]  # those that no longer do, each with whose it was
    unfilled: list[str]  # weights that nothing was put into


def watched(make: Callable[[], nn.Module]) -> Made:
    """Make a model and watch."""
    with Construction() as construction:
        model = make()
    return Made(
        model=model,
        deliberate=len({id(one.weight) for one in construction.deliberate}),
        overwritten=_overwritten(construction, model),
        unfilled=[name for name, weight in model.named_parameters() if weight.isnan().any()],
    )


def _overwritten(construction: Construction, model: nn.Module) -> dict[str, str]:
    names = {id(weight): name for name, weight in model.named_parameters()}
    usual = usual_spread(weight.detach() for weight in model.parameters())
    there = [one for one in construction.deliberate if id(one.weight) in names]
    found = {}
    for one in there:
        final = one.weight.detach()
        if torch.equal(one.value, final):
            continue
        related = [(o.value, o.weight.detach()) for o in there if o is not one]
        if not kept(one.value, final, usual=usual) or not relation_kept(one.value, final, related):
            found[names[id(one.weight)]] = f"{one.owner} had set to {_told(one.value)}"
    return found


def _told(value: torch.Tensor) -> str:
    if value.numel() == 1 or value.min() == value.max():
        return f"{float(value.flatten()[0]):.3g}"
    return f"values that spread by {float(value.std()):.2g}"


def _of_torch(module: nn.Module) -> bool:
    return type(module).__module__.split(".")[0] == "torch"


def _of_no_kind(module: nn.Module) -> bool:
    """A class of the user's that is not one of torch's layers with something added."""
    bases = [base for base in type(module).__mro__ if base.__module__.split(".")[0] == "torch"]
    return not _of_torch(module) and bases[0] is nn.Module


def _own(module: nn.Module) -> list[nn.Parameter]:
    return [weight for weight in module._parameters.values() if weight is not None]


def _below(module: nn.Module) -> Iterator[nn.Module]:
    """A module and all in it, by no method that is being watched."""
    yield module
    for child in module._modules.values():
        if child is not None:
            yield from _below(child)


def _with_defaults() -> list[type]:
    """Modules of torch that fill their weights themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kinds = [kind for kind in vars(nn).values() if isinstance(kind, type)]
    bases = {base for kind in kinds for base in kind.__mro__ if issubclass(base, nn.Module)}
    return [kind for kind in bases if "reset_parameters" in vars(kind)]
