"""Attention cores: where q, k and v become visible, though no module takes or returns them.

Three places: a Flax method `attend(q, k, v, mask, ...)` of the attention module,
`jax.nn.dot_product_attention`, and a pair of `jnp.einsum` that makes scores and applies weights; of
the pair in Flax's own attention the scale and the mask are known too.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from flax.linen import attention as linen_attention
from flax.nnx.nn import attention as nnx_attention

from assay.captures.jax import einsum as jax_einsum
from assay.captures.jax.forward_pass import active
from assay.captures.manifest import Scalar


@dataclass(kw_only=True)
class AttentionCore:
    """Tensors of an attention, with axes [B, H, S, D], and how they were combined."""

    tensors: dict[str, jax.Array]
    order: str = "BSHD"  # of the axes in memory
    implementation: str | None
    scalars: dict[str, Scalar] = field(default_factory=dict)
    adds_mask: bool = False  # its mask is added to the scores


class CoreDetector:
    """Watches one attention that is running for its core; the last that is seen counts."""

    def __init__(self) -> None:
        self.core: AttentionCore | None = None
        self.saw_inner = False  # another attention ran inside this one
        self._scores: jax_einsum.Scores | None = None
        self._flax: AttentionCore | None = None  # of Flax's own weights: mask and scale

    def see_einsum(self, equation: str, operands: tuple[Any, ...], out: jax.Array) -> None:
        """Look at one einsum of two arrays."""
        scores = self._scores
        if scores and (tensors := jax_einsum.weighted(scores, equation, operands, out)):
            known = self._flax or AttentionCore(tensors={}, implementation="jnp.einsum")
            self.core = replace(known, tensors=known.tensors | tensors, order=scores.order)
            self._scores = self._flax = None
        elif scores := jax_einsum.scores(equation, operands, out):
            self._scores, self._flax = scores, None

    def see_flax_weights(self, core: AttentionCore) -> None:
        """Take what Flax's own function made weights of, whose scores were seen just before."""
        self._flax = core if self._scores else None


def from_attend(arguments: dict[str, Any], out: Any) -> AttentionCore | None:
    """Core that a method `attend` computed, in [B, S, H, D]; None where it is something else.

    Its q is scaled already, its mask says all that a query may see, and its argument
    `implementation`, if there is one, names what computes it.
    """
    tensors = {name: arguments.get(name) for name in ("q", "k", "v")} | {"out": out}
    if any(getattr(tensor, "ndim", None) != 4 for tensor in tensors.values()):
        return None
    tensors = {name: heads_first(tensor) for name, tensor in tensors.items()}
    if arguments.get("mask") is not None:
        tensors["mask"] = arguments["mask"]
    name = arguments.get("implementation")
    return AttentionCore(
        tensors=tensors,
        implementation=name if isinstance(name, str) else None,
        scalars={"causal": False, "scale": 1.0},
    )


def heads_first(x: jax.Array) -> jax.Array:
    """[B, S, H, D] as [B, H, S, D]."""
    return jnp.swapaxes(x, 1, 2)


def replacements(
    see_alone: Callable[[AttentionCore], None],
) -> dict[tuple[Any, str], Callable[[Any], Any]]:
    """Makers of functions that show cores to the detectors, by owner and name.

    `see_alone` gets the core of a call that no attention module made.
    """
    weights = "dot_product_attention_weights"
    return {
        (jnp, "einsum"): _einsum,
        (linen_attention, weights): _flax_weights,
        (nnx_attention, weights): _flax_weights,
        (jax.nn, "dot_product_attention"): functools.partial(_attention, see_alone=see_alone),
    }


def _einsum(original: Callable) -> Callable:
    @functools.wraps(original)
    def einsum(subscripts: Any, /, *operands: Any, **options: Any) -> Any:
        out = original(subscripts, *operands, **options)
        if len(operands) == 2 and isinstance(subscripts, str) and not active.ignoring:
            for each in active.passes:
                if each.detectors:
                    each.detectors[-1].see_einsum(subscripts, operands, out)
        return out

    return einsum


def _flax_weights(original: Callable) -> Callable:
    """Flax divides q by the root of its width before it makes scores, and masks them itself."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def dot_product_attention_weights(*args: Any, **options: Any) -> Any:
        result = original(*args, **options)
        if not active.ignoring:
            arguments = signature.bind(*args, **options)
            arguments.apply_defaults()
            for each in active.passes:
                if each.detectors:
                    each.detectors[-1].see_flax_weights(_from_flax(arguments.arguments))
        return result

    return dot_product_attention_weights


def _from_flax(arguments: dict[str, Any]) -> AttentionCore:
    mask, bias = arguments["mask"], arguments["bias"]
    tensors = {} if mask is None and bias is None else {"mask": bias if mask is None else mask}
    if mask is not None and bias is not None:
        tensors["bias"] = bias
    scalars: dict[str, Scalar] = {"causal": bool(arguments.get("is_causal")), "scale": 1.0}
    if arguments["dropout_rate"] and not arguments["deterministic"]:
        scalars["dropout"] = float(arguments["dropout_rate"])
    if scalars["causal"]:
        scalars["alignment"] = "top-left"
    return AttentionCore(
        tensors={name: jnp.asarray(tensor) for name, tensor in tensors.items()},
        implementation="flax.dot_product_attention",
        scalars=scalars,
        adds_mask=mask is None and bias is not None,
    )


def _attention(original: Callable, *, see_alone: Callable[[AttentionCore], None]) -> Callable:
    @functools.wraps(original)
    def dot_product_attention(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
        with _ignoring_parts():
            result = original(query, key, value, *rest, **options)
        if active.passes and not active.ignoring:
            out = result[0] if isinstance(result, tuple) else result
            core = _from_jax(query, key, value, out, *rest, **options)
            detectors = [each.detectors[-1] for each in active.passes if each.detectors]
            for detector in detectors:
                detector.core = core
            if not detectors:
                see_alone(core)
        return result

    return dot_product_attention


@contextmanager
def _ignoring_parts() -> Iterator[None]:
    active.ignoring += 1
    try:
        yield
    finally:
        active.ignoring -= 1


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
) -> AttentionCore:
    """Core of one call of jax.nn.dot_product_attention, whose causal mask is top-left."""
    arrays = {"q": query, "k": key, "v": value, "out": out}
    batched = {name: x[None] if jnp.ndim(x) == 3 else x for name, x in arrays.items()}
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
    return AttentionCore(
        tensors=tensors,
        implementation=f"jax.nn.dot_product_attention:{implementation or 'default'}",
        scalars=scalars,
        adds_mask=mask is None and bias is not None,
    )
