"""A model called as its contract says: logits and loss, and a cache where one is given.

An answer of another form is a BrokenContract. B sequences, T tokens, V words.
"""

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from assay.correctness.models.finding import BrokenContract

# What a search for the tensors of a cache does not go into.
_NO_CONTENT = (nn.Parameter, ModuleType, str, bytes, type)
# How far a loss may be off, by dtype.
_LOSS = {torch.float64: 1e-9, torch.float16: 5e-3, torch.bfloat16: 2e-2}


class Answer(NamedTuple):
    """What a forward gives; `cache` is None where none was given."""

    logits: torch.Tensor  # [B, T, V]
    loss: torch.Tensor | None
    cache: Any = None


def call(
    model: nn.Module, idx: torch.Tensor, targets: torch.Tensor | None = None, **cache: Any
) -> Answer:
    """Run a model on tokens [B, T]; `cache=` hands over a cache and wants one back."""
    told = () if targets is None else (targets.contiguous(),)
    if cache and _wants_word(type(model)):
        cache["use_cache"] = True
    given = model(idx.contiguous(), *told, **cache)
    wanted = 3 if cache else 2
    if not isinstance(given, tuple | list) or len(given) != wanted:
        found = f"{len(given)} values" if isinstance(given, tuple | list) else type(given).__name__
        form = "(logits, loss, cache)" if cache else "(logits, loss)"
        raise BrokenContract(f"forward gives {found}; wanted {form}")
    logits, loss = given[:2]
    if not isinstance(logits, torch.Tensor) or logits.shape[:-1] != idx.shape:
        shape = list(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        asked = "with" if targets is not None else "without"
        raise BrokenContract(
            f"logits are {shape} for tokens {list(idx.shape)} {asked} targets; "
            "wanted them for every position"
        )
    unsaid = loss is None and cache  # a loop that samples wants none
    if targets is not None and not unsaid and not isinstance(loss, torch.Tensor):
        raise BrokenContract(f"the loss is {loss!r} where targets are given; wanted a tensor")
    return Answer(logits, loss, given[2] if cache else None)


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor, **how: Any) -> torch.Tensor:
    """What a loss must be: over all positions, those with target -1 left out."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1, **how)


def loss_tolerance(computed: torch.Tensor) -> float:
    """How far, relatively, a loss of this dtype, or of logits of it, may be off."""
    return _LOSS.get(computed.dtype, 1e-5)


def takes_cache(model: nn.Module) -> bool | None:
    """Whether forward has a parameter `cache`; None where it takes whatever it is given."""
    parameters = inspect.signature(model.forward).parameters.values()
    if any(p.name == "cache" for p in parameters):
        return True
    return None if any(p.kind is p.VAR_KEYWORD for p in parameters) else False


@functools.cache
def _wants_word(kind: type) -> bool:
    """Whether a forward gives its cache back only when it is told to."""
    return "use_cache" in inspect.signature(kind.forward).parameters


def beginnings(model: nn.Module, layers: int) -> list[Callable[[int], Any]]:
    """How an empty cache can be made for a batch: the model's own way, or some usual ones."""
    if hasattr(model, "new_cache"):
        return [model.new_cache]
    return [
        lambda batch: [],
        lambda batch: {},
        lambda batch: [None] * layers,
        lambda batch: [(None, None)] * layers,
        lambda batch: [{} for _ in range(layers)],
    ]


def first_that_works(model: nn.Module, layers: int, idx: torch.Tensor) -> int:
    """Which of `beginnings` a model can decode from."""
    refusals: dict[str, list[str]] = {}
    for number, begin in enumerate(beginnings(model, layers)):
        try:
            decode_twice(model, begin(len(idx)), idx)
            return number
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            what = str(error) if isinstance(error, BrokenContract) else what
            refusals.setdefault(what, []).append(str(begin(1)))
    told = "; ".join(f"from {' or '.join(starts)}: {what}" for what, starts in refusals.items())
    raise BrokenContract(
        f"forward takes a cache and works with no empty one: {told}. Mend that, or give the model "
        "new_cache(batch) if its empty cache is another"
    )


@torch.no_grad()
def decode_twice(model: nn.Module, cache: Any, idx: torch.Tensor) -> None:
    """Whether that works at all: tokens, and the same ones behind them."""
    call(model, idx, cache=call(model, idx, cache=cache).cache)


def stored(cache: Any) -> dict[str, torch.Tensor]:
    """The tensors of a cache: those it tells of, else all that can be found in it, by path."""
    if tells(cache):
        return {str(number): tensor for number, tensor in enumerate(cache.tensors())}
    return reachable(cache)


def tells(cache: Any) -> bool:
    """Whether a cache says itself what it holds."""
    return callable(getattr(cache, "tensors", None))


def reachable(cache: Any) -> dict[str, torch.Tensor]:
    """Every tensor in nested lists, tuples, dicts and attributes, each once; no weights."""
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()

    def visit(thing: Any, path: str) -> None:
        if id(thing) in seen or isinstance(thing, _NO_CONTENT) or _is_model(thing):
            return
        seen.add(id(thing))
        if isinstance(thing, torch.Tensor):
            found[path] = thing
            return
        for name, member in _members(thing):
            visit(member, f"{path}.{name}")

    visit(cache, "")
    return found


def _is_model(thing: Any) -> bool:
    """A module with weights; one without may be where keys and values are kept."""
    return isinstance(thing, nn.Module) and next(thing.parameters(), None) is not None


def _members(thing: Any) -> list[tuple[Any, Any]]:
    if isinstance(thing, dict):
        return list(thing.items())
    if isinstance(thing, list | tuple | set | frozenset):
        return list(enumerate(thing))
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    held = [(name, getattr(thing, name)) for name in slots if hasattr(thing, name)]
    return held + list(getattr(thing, "__dict__", {}).items())
