"""The point at which tensors leave a program: cut, reduced to what the mode keeps, handed over.

A tap is exactly one host call in whatever its program is put into: it is no part of derivatives,
it is not computed again by a checkpoint, and under vmap it sees the whole batch at once. That the
last two hold comes of jax.custom_batching: an effect in it is kept, and kept out of recomputation.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from assay.captures.jax import statistics as jax_statistics
from assay.captures.jax.call import SUMMARY, AttentionCall, Kept
from assay.captures.manifest import TensorEntry
from assay.captures.recording import cuts
from assay.captures.recording.options import CaptureOptions

Host = Callable[..., None]


def kept(
    call: AttentionCall, tensors: dict[str, jax.Array], options: CaptureOptions
) -> tuple[Kept, dict[str, Any]]:
    """What is kept of a call, and the arrays that carry it: tensors, statistics or none."""
    if not options.outputs:
        given = ("out", "layer_out")
        tensors = {n: x for n, x in tensors.items() if n.partition(".")[0] not in given}
    scalars, orders = dict(call.scalars), dict(call.orders)
    causal = bool(scalars.get("causal"))
    done = cuts.cut(
        tensors,
        options,
        causal=causal,
        alignment=str(scalars.get("alignment") or "bottom-right"),
    )
    entries = {
        name: TensorEntry(
            dtype=x.dtype.name,
            shape=tuple(done.tensors.get(name, x).shape),
            order=orders.get(name),
            why=done.why.get(name),
        )
        for name, x in tensors.items()
    }
    told = Kept(entries=tuple(entries.items()), cut=tuple(done.cut.items()))
    arrays = jax.lax.stop_gradient(done.tensors)
    if options.mode != "full":
        arrays = {SUMMARY: summary(arrays, with_statistics=options.mode == "stats")}
    return told, arrays


def summary(tensors: dict[str, jax.Array], *, with_statistics: bool) -> jax.Array:
    """int32 [n]: how many rows of a vmap each row stands for, then perhaps the statistics.

    Under vmap there is one for all rows, since it is made of the merged tensors.
    """

    def of_rows(times: int) -> Callable[[dict[str, jax.Array]], jax.Array]:
        @jax.custom_batching.custom_vmap
        def summed_up(tensors: dict[str, jax.Array]) -> jax.Array:
            parts = [jnp.full(1, times, jnp.int32)]
            if with_statistics:
                parts.append(jax_statistics.packed(tensors))
            return jnp.concatenate(parts)

        @summed_up.def_vmap
        def _(size: int, mapped: Any, tensors: dict[str, jax.Array]) -> tuple[jax.Array, bool]:
            return of_rows(times * size)(merged(size, mapped[0], tensors)), False

        return summed_up

    return of_rows(1)(tensors)


def tap(
    host: Host,
    call: AttentionCall,
    options: CaptureOptions,
    *,
    wanted: jax.Array,
    key: jax.Array,
    tensors: dict[str, jax.Array],
) -> None:
    """Hand one call to `host(call, kept, key, arrays)` where `wanted` holds as the program runs."""

    def handed(wanted: jax.Array, key: jax.Array, tensors: dict[str, jax.Array]) -> None:
        told, arrays = kept(call, tensors, options)
        _send(functools.partial(host, call, told), wanted, key, arrays)

    _once(handed, merged, wanted, key, tensors)


def send(host: Host, *, wanted: jax.Array, key: jax.Array, arrays: Any) -> None:
    """Hand `host(key, arrays)` arrays that are the same for all rows of a vmap."""
    _once(functools.partial(_send, host), lambda size, mapped, arrays: arrays, wanted, key, arrays)


def _once(
    handed: Callable[..., None],
    merge: Callable[..., Any],
    wanted: jax.Array,
    key: jax.Array,
    arrays: Any,
) -> None:
    """Have `handed` called in the program once, whatever is done with the program."""

    @jax.custom_batching.custom_vmap
    def once(wanted: jax.Array, key: jax.Array, arrays: Any) -> tuple[()]:
        handed(wanted, key, arrays)
        return ()

    @once.def_vmap
    def _(size: int, mapped: Any, wanted: Any, key: Any, arrays: Any) -> tuple[tuple, tuple]:
        if mapped[0]:
            wanted = wanted.any()
        if mapped[1]:
            key = key[0]
        once(wanted, key, merge(size, mapped[2], arrays))
        return (), ()

    once(*jax.lax.stop_gradient((jnp.asarray(wanted), key, arrays)))


def _send(host: Host, wanted: jax.Array, key: jax.Array, arrays: Any) -> None:
    """The call of the host, in the branch that is taken where it is wanted."""
    callback = functools.partial(jax.debug.callback, host)
    jax.lax.cond(wanted, callback, lambda key, arrays: None, key, arrays)


def merged(
    size: int, mapped: dict[str, bool], tensors: dict[str, jax.Array]
) -> dict[str, jax.Array]:
    """Tensors with the axis of a vmap, which comes first, made part of their batch axis.

    One that has a single row for the whole batch gets as many as the others.
    """
    whole = {
        name: x if mapped[name] else jnp.broadcast_to(x, (size, *x.shape))
        for name, x in tensors.items()
    }
    rows = max((x.shape[1] for x in whole.values() if x.ndim > 1), default=1)
    found = {}
    for name, x in whole.items():
        if x.ndim > 1:
            if x.shape[1] == 1 < rows:
                x = jnp.repeat(x, rows, axis=1)
            x = x.reshape(size * x.shape[1], *x.shape[2:])
        found[name] = x
    return found
