"""Attention recognised by two einsums: one makes scores of queries and keys, one weighs values.

The letters of an equation say which axis is which. B is the axis that comes first in the queries
and is in both operands; axes that keys share too are kv heads; T and S end the scores; D is summed.
"""

import string
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp


@dataclass(frozen=True, kw_only=True)
class Scores:
    """An einsum that made scores: its letters by role, and q and k with axes [B, H, S, D]."""

    letters: str  # of the scores
    shape: tuple[int, ...]
    batch: str
    kv_heads: str
    groups: str  # further axes of the queries alone
    queries: str
    keys: str
    q: jax.Array
    k: jax.Array
    order: str


def scores(equation: str, operands: tuple[Any, ...], out: jax.Array) -> Scores | None:
    """Scores of queries and keys, if an einsum computed these."""
    parsed = _parsed(equation, operands)
    if parsed is None:
        return None
    left, right, result = parsed
    summed = [c for c in left if c in right and c not in result]
    shared = [c for c in left if c in right and c in result]
    queries = [c for c in left if c not in right]
    keys = [c for c in right if c not in left]
    if len(summed) != 1 or len(keys) != 1 or not shared or not queries:
        return None
    if (
        result[-1] != keys[0]
        or result[-2] not in queries
        or sorted(result) != sorted([*shared, *queries, *keys])
    ):
        return None
    batch, kv_heads, query = shared[0], "".join(shared[1:]), result[-2]
    groups = "".join(c for c in queries if c != query)
    heads = [left.index(c) for c in kv_heads + groups]
    return Scores(
        letters=result,
        shape=tuple(out.shape),
        batch=batch,
        kv_heads=kv_heads,
        groups=groups,
        queries=query,
        keys=keys[0],
        q=_arranged(operands[0], left, batch, kv_heads + groups, query + summed[0]),
        k=_arranged(operands[1], right, batch, kv_heads, keys[0] + summed[0]),
        order="BHSD" if heads and max(heads) < left.index(query) else "BSHD",
    )


def weighted(
    scored: Scores, equation: str, operands: tuple[Any, ...], out: jax.Array
) -> dict[str, jax.Array] | None:
    """q, k, v and out of the attention with these scores, if this einsum weighs values by them."""
    parsed = _parsed(equation, operands)
    if parsed is None or tuple(operands[0].shape) != scored.shape:
        return None
    weights, values, result = parsed
    role = dict(zip(scored.letters, weights, strict=True))  # the same axis in this equation
    summed = [c for c in weights if c in values and c not in result]
    own = [c for c in values if c not in weights]
    if summed != [role[scored.keys]] or len(own) != 1:
        return None
    batch, query = role[scored.batch], role[scored.queries]
    kv_heads = "".join(role[c] for c in scored.kv_heads)
    groups = "".join(role[c] for c in scored.groups)
    if set(values) != {batch, *kv_heads, summed[0], own[0]}:
        return None
    if set(result) != {batch, *kv_heads, *groups, query, own[0]}:
        return None
    return {
        "q": scored.q,
        "k": scored.k,
        "v": _arranged(operands[1], values, batch, kv_heads, summed[0] + own[0]),
        "out": _arranged(out, result, batch, kv_heads + groups, query + own[0]),
    }


def _parsed(equation: str, operands: tuple[Any, ...]) -> tuple[str, str, str] | None:
    """The letters of both operands and of the result, an ellipsis spelled out."""
    sides = equation.replace(" ", "").split("->")
    if len(sides) != 2 or sides[0].count(",") != 1:
        return None
    left, right = sides[0].split(",")
    free = [c for c in string.ascii_letters if c not in equation]
    hidden = [  # axes that an ellipsis stands for
        jnp.ndim(operand) - len(letters.replace("...", ""))
        for operand, letters in zip(operands, (left, right), strict=True)
        if "..." in letters
    ]
    rest = "".join(free[: hidden[0]]) if hidden else ""
    if len(set(hidden)) > 1 or (hidden and hidden[0] < 0):
        return None
    spelled = tuple(letters.replace("...", rest) for letters in (left, right, sides[1]))
    if any(len(set(letters)) != len(letters) for letters in spelled) or len(spelled[2]) < 3:
        return None
    return spelled  # type: ignore[return-value]


def _arranged(x: Any, letters: str, batch: str, heads: str, last: str) -> jax.Array:
    """x as [B, H, S, D], all axes of heads as one."""
    wanted = batch + heads + last
    x = jnp.transpose(jnp.asarray(x), [letters.index(c) for c in wanted])
    return x.reshape(x.shape[0], -1, *x.shape[-2:])
