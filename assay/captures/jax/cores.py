"""Where q, k and v of an attention become visible, though no module takes or returns them.

Three places: a Flax method `attend(q, k, v, mask, ...)` of the attention module,
`jax.nn.dot_product_attention`, and a pair of `jnp.einsum` that makes scores and uses the weights.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from assay.captures.jax import einsum as jax_einsum
from assay.captures.jax.frame import here
from assay.captures.manifest import Scalar


@dataclass(kw_only=True)
class Core:
    """What an attention computed from what, with axes [B, H, S, D]."""

    tensors: dict[str, jax.Array]
    order: str
    implementation: str | None
    scalars: dict[str, Scalar] = field(default_factory=dict)
    adds_mask: bool = False  # its mask is added to the scores


class Watch:
    """Waits for the core of one attention that is running; the last that is seen counts."""

    def __init__(self) -> None:
        self.core: Core | None = None
        self.held_other = False  # whether another attention ran inside this one
        self._scores: jax_einsum.Scores | None = None

    def einsum(self, equation: str, operands: tuple[Any, ...], out: jax.Array) -> None:
        """See one einsum of two arrays."""
        if self._scores and (seen := jax_einsum.weighted(self._scores, equation, operands, out)):
            self.core = Core(
                tensors=seen.tensors, order=seen.order, implementation="jnp.einsum", scalars={}
            )
            self._scores = None
        elif found := jax_einsum.scores(equation, operands, out):
            self._scores = found


def from_attend(arguments: dict[str, Any], out: Any) -> Core | None:
    """The core that a method `attend` computed, in [B, S, H, D]; None where it is something else.

    Its q is scaled already, its mask says all that a query may see, and `implementation`, if it is
    told that, names what computes it.
    """
    names = ("q", "k", "v")
    if not all(hasattr(arguments.get(name), "ndim") for name in names) or not hasattr(out, "ndim"):
        return None
    tensors = {name: arguments[name] for name in names} | {"out": out}
    if any(one.ndim != 4 for one in tensors.values()):
        return None
    tensors = {name: heads_first(one) for name, one in tensors.items()}
    if arguments.get("mask") is not None:
        tensors["mask"] = arguments["mask"]
    name = arguments.get("implementation")
    return Core(
        tensors=tensors,
        order="BSHD",
        implementation=name if isinstance(name, str) else None,
        scalars={"causal": False, "scale": 1.0},
    )


def heads_first(x: jax.Array) -> jax.Array:
    """[B, S, H, D] as [B, H, S, D]."""
    return jnp.swapaxes(x, 1, 2)


def stand_ins(seen_alone: Callable[[Core], None]) -> dict[tuple[Any, str], Callable[[Any], Any]]:
    """Makers of functions that show cores to whoever watches.

    `seen_alone` gets the core of a call that no attention module made.
    """
    return {
        (jnp, "einsum"): _einsum,
        (jax.nn, "dot_product_attention"): functools.partial(_attention, seen_alone=seen_alone),
    }


def _einsum(original: Callable) -> Callable:
    @functools.wraps(original)
    def einsum(subscripts: Any, /, *operands: Any, **given: Any) -> Any:
        out = original(subscripts, *operands, **given)
        if here.frames and not here.looking_away and isinstance(subscripts, str):
            for frame in here.frames:
                if frame.watches and len(operands) == 2:
                    frame.watches[-1].einsum(subscripts, operands, out)
        return out

    return einsum


def _attention(original: Callable, *, seen_alone: Callable[[Core], None]) -> Callable:
    @functools.wraps(original)
    def dot_product_attention(query: Any, key: Any, value: Any, *rest: Any, **given: Any) -> Any:
        with _looking_away():
            result = original(query, key, value, *rest, **given)
        if here.frames and not here.looking_away:
            out = result[0] if isinstance(result, tuple) else result
            core = _from_jax(query, key, value, out, *rest, **given)
            watched = [frame for frame in here.frames if frame.watches]
            for frame in watched:
                frame.watches[-1].core = core
            if not watched:
                seen_alone(core)
        return result

    return dot_product_attention


@contextmanager
def _looking_away() -> Iterator[None]:
    here.looking_away += 1
    try:
        yield
    finally:
        here.looking_away -= 1


def _from_jax(
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    implementation: str | None = None,
    **others: Any,
) -> Core:
    """The core of one call of jax.nn.dot_product_attention, whose causal mask is top-left."""
    given = {"q": query, "k": key, "v": value, "out": out}
    batched = {name: x[None] if jnp.ndim(x) == 3 else x for name, x in given.items()}
    tensors = {name: heads_first(jnp.asarray(x)) for name, x in batched.items()}
    if mask is not None or bias is not None:
        tensors["mask"] = jnp.asarray(bias if mask is None else mask)
    if mask is not None and bias is not None:
        tensors["bias"] = jnp.asarray(bias)
    scalars: dict[str, Scalar] = {
        "causal": bool(is_causal),
        "scale": float(tensors["q"].shape[-1] ** -0.5 if scale is None else scale),
    }
    if is_causal:
        scalars["alignment"] = "top-left"
    if others.get("local_window_size") is not None:
        scalars["window"] = str(others["local_window_size"])
    for name in ("query_seq_lengths", "key_value_seq_lengths"):
        if others.get(name) is not None:
            tensors[name] = jnp.asarray(others[name])
    name = f"jax.nn.dot_product_attention:{implementation or 'default'}"
    return Core(
        tensors=tensors,
        order="BSHD",
        implementation=name,
        scalars=scalars,
        adds_mask=mask is None and bias is not None,
    )
