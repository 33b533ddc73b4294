"""Calls of a model by its contract: logits and loss, with a cache or without, and cache tensors.

An answer of another form is a ContractViolation. B sequences, T tokens, V words.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from assay.correctness.models.finding import Comparison, ContractViolation

# Not searched for tensors of a cache.
_OPAQUE = (nn.Parameter, ModuleType, str, bytes, type)
_CACHE_WORDS = ("past", "cache", "kv", "memory")  # in names of parameters that may be caches
# Relative tolerance of a loss by its dtype; 1e-5 for those not named.
_LOSS_TOLERANCE = {torch.float64: 1e-9, torch.float16: 5e-3, torch.bfloat16: 2e-2}


class ForwardOutput(NamedTuple):
    """Return value of forward; `cache` is None where none was passed."""

    logits: torch.Tensor  # [B, T, V]
    loss: torch.Tensor | None
    cache: Any = None
    auxiliary: float = 0.0  # what the model declares to have added to the cross entropy


def forward(
    model: nn.Module, idx: torch.Tensor, targets: torch.Tensor | None = None, **cache: Any
) -> ForwardOutput:
    """Run a model on tokens [B, T]; with `cache=` it must return one too."""
    arguments = () if targets is None else (targets.contiguous(),)
    if cache and _has_use_cache(type(model)):
        cache["use_cache"] = True
    output = model(idx.contiguous(), *arguments, **cache)
    is_sequence = isinstance(output, tuple | list)
    if not is_sequence or len(output) != (3 if cache else 2):
        form = f"{len(output)} values" if is_sequence else type(output).__name__
        wanted = "(logits, loss, cache)" if cache else "(logits, loss)"
        raise ContractViolation(f"forward gives {form}; wanted {wanted}")
    logits, loss = output[:2]
    if not isinstance(logits, torch.Tensor) or logits.shape[:-1] != idx.shape:
        shape = list(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        with_targets = "without" if targets is None else "with"
        raise ContractViolation(
            f"logits are {shape} for tokens {list(idx.shape)} {with_targets} targets; "
            "wanted them for every position"
        )
    may_lack_loss = targets is None or (loss is None and cache)  # sampling needs no loss
    if not may_lack_loss and not isinstance(loss, torch.Tensor):
        raise ContractViolation(f"the loss is {loss!r} where targets are given; wanted a tensor")
    auxiliary = 0.0 if targets is None else _auxiliary_loss(model)
    return ForwardOutput(logits, loss, output[2] if cache else None, auxiliary)


def _auxiliary_loss(model: nn.Module) -> float:
    """The `auxiliary_loss` of a model's last call; 0 where it declares none."""
    declared = getattr(model, "auxiliary_loss", None)
    if declared is None:
        return 0.0
    is_tensor = isinstance(declared, torch.Tensor) and declared.numel() == 1
    if not is_tensor and not isinstance(declared, int | float):
        form = list(declared.shape) if isinstance(declared, torch.Tensor) else repr(declared)
        raise ContractViolation(f"auxiliary_loss is {form}; wanted a single number or None")
    return float(declared)


@contextmanager
def in_mode(model: nn.Module, mode: str, *, graphs: bool = False) -> Iterator[None]:
    """Put a model into "train" or "eval" mode and build autograd graphs only if asked to.

    The mode is not restored: changing it takes as long as a call.
    """
    if model.training != (mode == "train"):
        getattr(model, mode)()
    with torch.set_grad_enabled(graphs):
        yield


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor, **options: Any) -> torch.Tensor:
    """Loss that a model must return: over all positions but those with target -1."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1, **options)


def compare_loss(
    output: ForwardOutput,
    logits: torch.Tensor,
    targets: torch.Tensor,
    tolerance: float,
    where: str,
) -> Comparison:
    """Compare a loss, less a declared auxiliary one, with the cross entropy of logits."""
    expected = float(cross_entropy(logits.detach(), targets))
    loss, auxiliary = float(output.loss), output.auxiliary
    declared = f" and auxiliary_loss is {auxiliary:.6g}" if auxiliary else ""
    return Comparison(
        difference=abs(loss - auxiliary - expected) / expected,
        tolerance=max(tolerance, loss_tolerance(output.loss)),
        message=f"the loss is {loss:.6g} {where}; cross entropy gives {expected:.6g}{declared}",
    )


def loss_tolerance(tensor: torch.Tensor) -> float:
    """Relative tolerance of a loss of this dtype, or of a loss of logits of it."""
    return _LOSS_TOLERANCE.get(tensor.dtype, 1e-5)


def accepts_cache(model: nn.Module) -> bool | None:
    """Return True where forward has a parameter `cache`, None where it has **kwargs instead."""
    parameters = inspect.signature(model.forward).parameters.values()
    if any(parameter.name == "cache" for parameter in parameters):
        return True
    return None if any(p.kind is p.VAR_KEYWORD for p in parameters) else False


def missing_cache_text(model: nn.Module) -> str:
    """Reason why a model cannot decode, and the parameter that should be called `cache`, if any."""
    parameters = inspect.signature(model.forward).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return "forward takes **kwargs and returns no cache where it is given one as cache="
    text = "forward has no parameter cache, so it cannot decode"
    alike = [p.name for p in parameters if any(word in p.name for word in _CACHE_WORDS)]
    return f"{text}; {alike[0]} seems to be one: call it cache" if alike else text


@functools.cache
def _has_use_cache(model_class: type) -> bool:
    """Return True where forward returns its cache on request only."""
    return "use_cache" in inspect.signature(model_class.forward).parameters


def empty_caches(model: nn.Module, layers: int) -> list[Callable[[int], Any]]:
    """Functions of the batch size that make an empty cache: the model's own, or usual forms."""
    if hasattr(model, "new_cache"):
        return [model.new_cache]
    return [
        lambda batch: [],
        lambda batch: {},
        lambda batch: [None] * layers,
        lambda batch: [(None, None)] * layers,
        lambda batch: [{} for _ in range(layers)],
    ]


def first_usable_cache(model: nn.Module, layers: int, idx: torch.Tensor) -> int:
    """Index of the first of `empty_caches` that a model can decode from."""
    refusals: dict[str, list[str]] = {}
    for index, empty_cache in enumerate(empty_caches(model, layers)):
        try:
            decode_twice(model, empty_cache(len(idx)), idx)
            return index
        except Exception as error:
            is_violation = isinstance(error, ContractViolation)
            text = str(error) if is_violation else f"{type(error).__name__}: {error}"
            refusals.setdefault(text, []).append(str(empty_cache(1)))
    attempts = "; ".join(f"from {' or '.join(forms)}: {text}" for text, forms in refusals.items())
    raise ContractViolation(
        f"forward takes a cache and works with no empty one: {attempts}. Fix that, or give the "
        "model new_cache(batch) if its empty cache has another form"
    )


@torch.no_grad()
def decode_twice(model: nn.Module, cache: Any, idx: torch.Tensor) -> None:
    """Decode tokens and then the same ones again; raises where that does not work."""
    forward(model, idx, cache=forward(model, idx, cache=cache).cache)


def cache_tensors(cache: Any) -> dict[str, torch.Tensor]:
    """Tensors of a cache by path: those it declares, else all that can be reached from it."""
    if declares_tensors(cache):
        return {str(number): tensor for number, tensor in enumerate(cache.tensors())}
    return reachable_tensors(cache)


def declares_tensors(cache: Any) -> bool:
    """Return True where a cache lists its tensors itself."""
    return callable(getattr(cache, "tensors", None))


def reachable_tensors(cache: Any) -> dict[str, torch.Tensor]:
    """Tensors in nested lists, tuples, dicts and attributes by path, each once; no weights."""
    tensors: dict[str, torch.Tensor] = {}
    visited: set[int] = set()

    def visit(value: Any, path: str) -> None:
        if id(value) in visited or isinstance(value, _OPAQUE) or _has_weights(value):
            return
        visited.add(id(value))
        if isinstance(value, torch.Tensor):
            tensors[path] = value
            return
        for name, member in _members(value):
            visit(member, f"{path}.{name}")

    visit(cache, "")
    return tensors


def _has_weights(value: Any) -> bool:
    """Return True for a module with weights; keys and values may be kept in one without."""
    return isinstance(value, nn.Module) and next(value.parameters(), None) is not None


def _members(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return list(enumerate(value))
    slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
    members = [(name, getattr(value, name)) for name in slots if hasattr(value, name)]
    return members + list(getattr(value, "__dict__", {}).items())
