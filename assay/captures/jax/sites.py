"""Which Flax modules are attentions, and what a record calls their arguments and results."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import numpy as np

from assay.captures.jax.cores import heads_first
from assay.captures.manifest import Phase, Scalar
from assay.captures.tensor import STORED_AS

Chooser = Callable[[nn.Module], bool]
# What attention modules call their arguments -> what a record calls them; the first is always x.
_NAMES = {
    "attn_mask": "mask",
    "attention_mask": "mask",
    "position_ids": "positions",
    "kv_cache": "cache",
    "past_key_values": "cache",
}
_CACHES = {2: ("k", "v"), 3: ("idx", "k", "v")}


def chooser(attention: Chooser | type | Sequence[type] | None) -> Chooser:
    """Says of a module whether it is an attention: by class, by a function, else by its name."""
    if attention is None:
        return lambda module: "attention" in type(module).__name__.lower()
    if isinstance(attention, type):
        return lambda module: isinstance(module, attention)
    if callable(attention):
        return attention
    classes = tuple(attention)
    return lambda module: isinstance(module, classes)


def is_model(module: nn.Module, wanted: nn.Module | type | None) -> bool:
    """Whether a bound module is the one asked for: of its class, with the same fields."""
    if wanted is None:
        return True
    if isinstance(wanted, type):
        return isinstance(module, wanted)
    if type(module) is not type(wanted):
        return False
    names = [f.name for f in dataclasses.fields(wanted) if f.name not in ("parent", "name")]
    return all(_alike(getattr(module, name), getattr(wanted, name)) for name in names)


def site_of(module: nn.Module) -> str:
    """The path of a module, as layers.attn; the name of its class where it is the whole model."""
    return ".".join(module.path) or type(module).__name__


def arguments(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What a method is called with, by the names of its parameters, defaults included."""
    parameters = list(inspect.signature(function).parameters.values())
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    given = dict(bound.arguments)
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            given |= given.pop(parameter.name, {})
    return given


def inputs(given: Mapping[str, Any]) -> tuple[dict[str, jax.Array], dict[str, Scalar]]:
    """The tensors and the plain values that an attention was called with, by their names."""
    tensors: dict[str, jax.Array] = {}
    scalars: dict[str, Scalar] = {}
    for place, (name, value) in enumerate(given.items()):
        name = _NAMES.get(name, name) if place else "x"
        if name == "cache" and isinstance(value, tuple) and len(value) in _CACHES:
            value = dict(zip(_CACHES[len(value)], value, strict=True))
        if isinstance(value, bool | int | float | str):
            scalars[name] = value
        else:
            tensors |= named(name, value)
    return tensors, scalars


def outputs(result: Any) -> dict[str, jax.Array]:
    """What an attention gave: the first of several results, without the cache behind it."""
    return named("layer_out", result[0] if isinstance(result, tuple) and result else result)


def cached(result: Any) -> dict[str, jax.Array]:
    """k and v as [B, H, S, D], out of a cache that an attention returned behind its output."""
    cache = result[1] if isinstance(result, tuple) and len(result) > 1 else None
    if not isinstance(cache, tuple) or len(cache) not in _CACHES:
        return {}
    found = dict(zip(_CACHES[len(cache)], cache, strict=True))
    return {
        name: heads_first(found[name])
        for name in ("k", "v")
        if is_array(found[name]) and found[name].ndim == 4
    }


def phase(
    given: Mapping[str, Any], tensors: Mapping[str, jax.Array], *, differentiated: bool
) -> Phase:
    """What the model was doing, as far as its calls tell."""
    inputs = [x for name, x in tensors.items() if name.partition(".")[0] == "x" and x.ndim > 1]
    has_cache = any(name.startswith("cache.") for name in tensors)
    if given.get("decode") is True or (has_cache and sum(x.shape[-2] for x in inputs) == 1):
        return "decode"
    if differentiated or given.get("deterministic") is False or given.get("train") is True:
        return "train"
    return "prefill" if has_cache or {"kv_cache", "cache"} & set(given) else "eval"


def named(name: str, value: Any) -> dict[str, jax.Array]:
    """The arrays of a tree, as name, name.0, name.k and so on; None is left out."""
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(value):
        if is_array(leaf):
            inner = jax.tree_util.keystr(path, simple=True, separator=".")
            found[f"{name}.{inner}" if inner else name] = leaf
    return found


def is_array(value: Any) -> bool:
    """Whether a value is an array that a store can hold; random keys are not."""
    return isinstance(value, jax.Array | np.ndarray) and getattr(value.dtype, "name", "") in (
        STORED_AS
    )


def _alike(one: Any, other: Any) -> bool:
    """Whether two fields are the same; binding a module turns its lists into tuples."""
    if one is other:
        return True
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, nn.Module):
        return isinstance(other, nn.Module) and is_model(one, other)
    try:
        return bool(one == other)
    except Exception:  # arrays among the fields, or fields that cannot be compared
        return False
