"""Names that measuring relies on, and a look at whether code of a user's has replaced one.

Clocks, random numbers and comparisons are bound when assay is imported, before any code of a
user's, so most replacements change nothing. They are noticed all the same, put back, and held
against whose turn it was. What does not go through a name (threads, memory, C) is not seen.
"""

import builtins
import random
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import attrgetter, is_
from types import FunctionType, ModuleType
from typing import Any

_OURS = "assay"
# Everything that can be called in these modules,
_WHOLE: tuple[ModuleType, ...] = (builtins, time, random, secrets)
# and these names of others, where they are loaded. `os.urandom` draws what must not be known.
_NAMED = {
    "os": ("urandom", "open", "read", "write"),
    "hmac": ("new", "compare_digest"),
    "numpy": ("abs", "asarray", "isfinite", "where", "sqrt", "exp", "concatenate", "stack"),
    "numpy.random": ("default_rng",),
    "torch": ("equal", "mul", "empty_strided", "from_numpy", "no_grad"),
    "torch.Tensor": (
        "__getitem__", "all", "clone", "contiguous", "copy_", "cpu", "detach", "device", "double",
        "dtype", "flatten", "is_contiguous", "isfinite", "isnan", "numpy", "shape", "stride", "sum",
        "to", "transpose", "view",
    ),
    "torch.autograd": ("grad",),
    "torch.cuda": ("Event", "_sleep", "empty_cache", "max_memory_allocated", "synchronize"),
    "jax": ("Array", "block_until_ready", "device_put", "jit", "vjp"),
}  # fmt: skip
_State = tuple[Any, ...]
_parts = attrgetter("__code__", "__defaults__", "__kwdefaults__")
# What a look is made with, bound before any code of a user's is loaded.
_all, _is, _list, _map = all, is_, list, map


class Tampered(Exception):
    """Code of a user's replaced what measuring relies on."""


class _WatchedNames:
    """Values of every watched name when the watch began, or when its module was loaded."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[Any, Any, _State | None]] = {}
        # The same for a quick look: by namespace, and the functions apart.
        self._values: list[tuple[Callable[[str], Any], list[str], list[Any]]] = []
        self._functions: list[FunctionType] = []
        self._states: list[_State] = []
        self._hooks = _hooks()
        self._modules = 0
        self._note_new()

    def replaced(self) -> list[str]:
        """Names that stand for something else now; each is put back where that can be done."""
        if self._is_unchanged():
            self._note_new()
            return []
        changed = []
        for (owner_name, name), (owner, value, state) in self._known.items():
            now = _get(owner, name)
            if now is value and (state is None or _state(now) == state):
                continue
            changed.append(f"{owner_name}.{name}")
            if state:
                value.__code__, value.__defaults__, value.__kwdefaults__ = state
            if now is not value:
                setattr(owner, name, value)
        if hooked := [name for name, hook in _hooks().items() if hook != self._hooks[name]]:
            _unhook(self._hooks)
        changed += hooked
        self._note_new()
        return changed

    def _is_unchanged(self) -> bool:
        """True where nothing was replaced: most turns, and a tenth of the time of finding what."""
        same = (_all(_map(_is, _map(get, names), values)) for get, names, values in self._values)
        return (
            _all(same)
            and _list(_map(_parts, self._functions)) == self._states
            and _hooks() == self._hooks
        )

    def _note_new(self) -> None:
        """Note the names of modules that were loaded since."""
        if len(sys.modules) == self._modules:
            return
        self._modules = len(sys.modules)
        for owner_name, owner, names in _watched():
            new = [name for name in names if (owner_name, name) not in self._known]
            values = {name: _get(owner, name) for name in new}
            noted = {name: value for name, value in values.items() if value is not None}
            for name, value in noted.items():
                self._known[owner_name, name] = (owner, value, _state(value))
            if noted:
                self._values.append((_getter(owner, noted), list(noted), list(noted.values())))
            functions = [value for value in noted.values() if isinstance(value, FunctionType)]
            self._functions += functions
            self._states += map(_parts, functions)


_watch: _WatchedNames | None = None


@contextmanager
def watched() -> Iterator[None]:
    """Within it, `refuse_replaced` knows what names stood for at its beginning."""
    global _watch
    before, _watch = _watch, _WatchedNames()
    try:
        yield
    finally:
        _watch = before


@contextmanager
def refusing() -> Iterator[None]:
    """Raise Tampered, whatever else was raised, where something within it replaced a name."""
    try:
        yield
    finally:
        refuse_replaced()


def refuse_replaced() -> None:
    """Raise Tampered, with the names put back, where some were replaced."""
    if _watch and (names := _watch.replaced()):
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise Tampered(
            f"its code replaced {', '.join(names[:5])}{more}, which measuring relies on; leave the "
            "names of other modules as they are"
        )


def _watched() -> Iterator[tuple[str, Any, list[str]]]:
    """Modules and classes, and their names that are watched."""
    for module in _WHOLE:
        yield module.__name__, module, _callables(module)
    for path, names in _NAMED.items():
        owner = sys.modules.get(path) or _get(sys.modules.get(path.rpartition(".")[0]), "Tensor")
        if owner is not None and (path in sys.modules or path.endswith(".Tensor")):
            yield path, owner, list(names)
    for module_name, module in list(sys.modules.items()):
        if module_name != _OURS and not module_name.startswith(f"{_OURS}."):
            continue
        names = _callables(module)
        yield module_name, module, names
        for name in names:
            value = vars(module)[name]
            if isinstance(value, type) and value.__module__ == module_name:
                yield f"{module_name}.{name}", value, _callables(value)


def _callables(owner: Any) -> list[str]:
    """Names of what can be called, and of constants."""
    names = vars(owner).items()
    return [name for name, value in names if callable(value) or name.strip("_").isupper()]


def _get(owner: Any, name: str) -> Any:
    """Value of a name, without asking a class's descriptors."""
    own = vars(owner).get(name) if owner is not None else None
    return own if own is not None else getattr(owner, name, None)


def _getter(owner: Any, names: Iterable[str]) -> Callable[[str], Any]:
    """A function that reads names of an owner as `_get` does, from its own ones alone where these
    are all."""
    own = vars(owner)
    return own.get if all(own.get(name) is not None for name in names) else partial(_get, owner)


def _state(value: Any) -> _State | None:
    """The parts of a function that can be exchanged in place."""
    return _parts(value) if isinstance(value, FunctionType) else None


def _hooks() -> dict[str, Any]:
    """Functions and modes that the interpreter and torch call without a name being used."""
    hooks: dict[str, Any] = {"sys.settrace": sys.gettrace(), "sys.setprofile": sys.getprofile()}
    if core := getattr(sys.modules.get("torch"), "_C", None):
        hooks["a torch function mode"] = core._len_torch_function_stack()
        hooks["a torch dispatch mode"] = core._len_torch_dispatch_stack()
    return {"a torch function mode": 0, "a torch dispatch mode": 0, **hooks}


def _unhook(before: dict[str, Any]) -> None:
    """Put back the hooks of before."""
    sys.settrace(before["sys.settrace"])
    sys.setprofile(before["sys.setprofile"])
    if core := getattr(sys.modules.get("torch"), "_C", None):
        while core._len_torch_function_stack() > before["a torch function mode"]:
            core._pop_torch_function_stack()
        while core._len_torch_dispatch_stack() > before["a torch dispatch mode"]:
            core._pop_torch_dispatch_stack(None)
