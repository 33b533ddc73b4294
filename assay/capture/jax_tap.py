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

from assay.capture import jax_statistics
from assay.capture.jax_call import STATISTICS, AttentionCall, Kept
from assay.workloads import cuts
from assay.workloads.manifest import TensorEntry
from assay.workloads.selection import Options

# host(call, kept, key, arrays): key is [ticket, layer, shard, iterations...].
Host = Callable[..., None]


def kept(
    call: AttentionCall, tensors: dict[str, jax.Array], options: Options
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
    arrays: dict[str, Any] = {}
    if options.mode == "full":
        arrays = done.tensors
    elif options.mode == "stats":
        arrays = {STATISTICS: jax_statistics.packed(done.tensors)}
    told = Kept(entries=tuple(entries.items()), cut=tuple(done.cut.items()))
    return told, {name: jax.lax.stop_gradient(array) for name, array in arrays.items()}


def tap(
    host: Host,
    call: AttentionCall,
    options: Options,
    *,
    wanted: jax.Array,
    key: jax.Array,
    tensors: dict[str, jax.Array],
) -> None:
    """Hand one call to `host` where `wanted` is true when the program runs."""

    @jax.custom_batching.custom_vmap
    def handed(wanted: jax.Array, key: jax.Array, tensors: dict[str, jax.Array]) -> tuple[()]:
        told, arrays = kept(call, tensors, options)
        send = functools.partial(jax.debug.callback, functools.partial(host, call, told))
        jax.lax.cond(wanted, send, lambda key, arrays: None, key, arrays)
        return ()

    @handed.def_vmap
    def _(size: int, mapped: Any, wanted: Any, key: Any, tensors: Any) -> tuple[tuple, tuple]:
        if mapped[0]:
            wanted = wanted.any()
        if mapped[1]:
            key = key[0]
        handed(wanted, key, merged(size, mapped[2], tensors))
        return (), ()

    handed(*jax.lax.stop_gradient((jnp.asarray(wanted), key, tensors)))


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
