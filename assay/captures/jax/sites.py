"""Attention modules of a Flax model: which they are, and what a record calls their arguments."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import numpy as np

from assay.captures.jax.functions import heads_first
from assay.captures.manifest import Phase, Scalar
from assay.captures.tensor import STORED_AS

Choice = Callable[[nn.Module], bool] | type | Sequence[type] | None
# Names that models give to the arguments of their attentions -> a record's; the first is always x.
_NAMES = {
    "attn_mask": "mask",
    "attention_mask": "mask",
    "position_ids": "positions",
    "kv_cache": "cache",
    "past_key_values": "cache",
}
_CACHES = {2: ("k", "v"), 3: ("idx", "k", "v")}


def attention_test(choice: Choice) -> Callable[[nn.Module], bool]:
    """Test of whether a module is an attention: by class, by a function, else by its name."""
    if choice is None:
        return lambda module: "attention" in type(module).__name__.lower()
    if callable(choice) and not isinstance(choice, type):
        return choice
    classes = choice if isinstance(choice, type) else tuple(choice)
    return lambda module: isinstance(module, classes)


def is_model(module: nn.Module, wanted: nn.Module | type | None) -> bool:
    """True where a bound module is the wanted one: of its class, with the same fields."""
    if wanted is None:
        return True
    if isinstance(wanted, type):
        return isinstance(module, wanted)
    if type(module) is not type(wanted):
        return False
    return all(_alike(getattr(module, n), getattr(wanted, n)) for n in field_names(wanted))


def field_names(module: nn.Module) -> list[str]:
    """Names of the fields that a module's class declares."""
    names = [field.name for field in dataclasses.fields(module)]
    return [name for name in names if name not in ("parent", "name")]


def site_of(module: nn.Module) -> str:
    """Path of a module, as layers.attn; the name of its class where it is the whole model."""
    return ".".join(module.path) or type(module).__name__


def arguments(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a call by the names of the parameters, defaults included."""
    signature = inspect.signature(function)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    values = dict(bound.arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            values |= values.pop(parameter.name, {})
    return values


def inputs(arguments: Mapping[str, Any]) -> tuple[dict[str, jax.Array], dict[str, Scalar]]:
    """Tensors and plain values among the arguments of an attention, by a record's names."""
    tensors: dict[str, jax.Array] = {}
    scalars: dict[str, Scalar] = {}
    for place, (name, value) in enumerate(arguments.items()):
        name = _NAMES.get(name, name) if place else "x"
        if name == "cache" and isinstance(value, tuple) and len(value) in _CACHES:
            value = dict(zip(_CACHES[len(value)], value, strict=True))
        if isinstance(value, bool | int | float | str):
            scalars[name] = value
        else:
            tensors |= _named_arrays(name, value)
    return tensors, scalars


def outputs(result: Any) -> dict[str, jax.Array]:
    """Output of an attention: the first of several results, without the cache behind it."""
    first = result[0] if isinstance(result, tuple) and result else result
    return _named_arrays("layer_out", first)


def cached(result: Any) -> dict[str, jax.Array]:
    """k and v as [B, H, S, D], out of a cache that an attention returned behind its output."""
    cache = result[1] if isinstance(result, tuple) and len(result) > 1 else None
    if not isinstance(cache, tuple) or len(cache) not in _CACHES:
        return {}
    tensors = dict(zip(_CACHES[len(cache)], cache, strict=True))
    return {
        name: heads_first(tensors[name])
        for name in ("k", "v")
        if _is_storable(tensors[name]) and tensors[name].ndim == 4
    }


def phase(
    arguments: Mapping[str, Any], tensors: Mapping[str, jax.Array], *, differentiated: bool
) -> Phase:
    """The model's phase, as far as a call of its attention shows it."""
    inputs = [x for name, x in tensors.items() if name.partition(".")[0] == "x" and x.ndim > 1]
    has_cache = any(name.startswith("cache.") for name in tensors)
    if arguments.get("decode") is True or (has_cache and sum(x.shape[-2] for x in inputs) == 1):
        return "decode"
    if differentiated or arguments.get("deterministic") is False or arguments.get("train") is True:
        return "train"
    return "prefill" if has_cache or {"kv_cache", "cache"} & set(arguments) else "eval"


def _named_arrays(name: str, value: Any) -> dict[str, jax.Array]:
    """Arrays of a pytree, as name, name.0, name.k and so on."""
    arrays = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(value):
        if _is_storable(leaf):
            inner = jax.tree_util.keystr(path, simple=True, separator=".")
            arrays[f"{name}.{inner}" if inner else name] = leaf
    return arrays


def _is_storable(value: Any) -> bool:
    """True for an array that a store can hold; random keys are not."""
    if not isinstance(value, jax.Array | np.ndarray):
        return False
    return getattr(value.dtype, "name", "") in STORED_AS


def _alike(first: Any, second: Any) -> bool:
    """True where two fields are the same; binding a module turns its lists into tuples."""
    if first is second:
        return True
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(_alike, first, second))
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(
            _alike(first[key], second[key]) for key in first
        )
    if isinstance(first, nn.Module):
        return isinstance(second, nn.Module) and is_model(first, second)
    try:
        return bool(first == second)
    except Exception:  # arrays among the fields, or fields that cannot be compared
        return False
