"""Stands in for einops, of torch and JAX arrays, where it is not installed.

Patterns are those of upstreams here: names, 1, one ellipsis, and groups in brackets.
"""

import re
from itertools import count
from math import prod
from typing import Any


def rearrange(array: Any, pattern: str, **sizes: int) -> Any:
    """Reorder, split and join axes."""
    return _apply(array, pattern, sizes)


def repeat(array: Any, pattern: str, **sizes: int) -> Any:
    """As rearrange, with new axes along which values repeat."""
    return _apply(array, pattern, sizes)


def reduce(array: Any, pattern: str, reduction: str, **sizes: int) -> Any:
    """As rearrange, with axes on the left only reduced: "sum", "mean" or "max"."""
    return _apply(array, pattern, sizes, reduction)


def _apply(array: Any, pattern: str, sizes: dict[str, int], reduction: str = "") -> Any:
    left, right = map(_groups, _expanded(pattern, array.ndim), ("left", "right"))
    lengths = dict(sizes)
    for group, size in zip(left, array.shape, strict=True):
        unknown = [name for name in group if name not in lengths]
        known = prod(lengths[name] for name in group if name not in unknown)
        lengths |= {name: size // known for name in unknown}
    before, after = ([name for group in side for name in group] for side in (left, right))
    array = array.reshape([lengths[name] for name in before])
    if reduction:
        axes = tuple(n for n, name in enumerate(before) if name not in after)
        array = getattr(array, "amax" if reduction == "max" else reduction)(axes)
        before = [name for name in before if name in after]
    kept = [name for name in before if name in after]
    array = array.reshape([lengths[name] for name in kept])  # axes of size 1 are dropped
    order = [kept.index(name) for name in after if name in kept]
    array = array.permute(order) if hasattr(array, "permute") else array.transpose(order)
    array = array.reshape([lengths[name] if name in kept else 1 for name in after])
    whole = [lengths.get(name, 1) for name in after]
    if list(array.shape) != whole:
        array = array.expand(whole) if hasattr(array, "expand") else _broadcast(array, whole)
    return array.reshape([prod(lengths.get(name, 1) for name in group) for group in right])


def _broadcast(array: Any, shape: list[int]) -> Any:
    import jax.numpy as jnp

    return jnp.broadcast_to(array, shape)


def _expanded(pattern: str, axes: int) -> list[str]:
    """Both sides of a pattern, with names in the place of an ellipsis."""
    left, right = pattern.split("->")
    rest = axes - len(re.findall(r"\([^)]*\)|[^\s()]+", left.replace("...", "")))
    names = " ".join(f"_{n}" for n in range(rest))
    return [side.replace("...", names) for side in (left, right)]


def _groups(text: str, side: str) -> list[list[str]]:
    """Names of each axis; one of size 1 gets a name that the other side lacks."""
    ones = (f"{side} {number}" for number in count())
    return [
        [next(ones) if name == "1" else name for name in entry.strip("()").split()]
        for entry in re.findall(r"\([^)]*\)|[^\s()]+", text)
    ]
