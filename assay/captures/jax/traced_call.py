"""One attention call while its model is traced, and what is kept of its tensors.

They are cut, then reduced to what the mode keeps, where they lie.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import msgspec

from assay.captures.jax import statistics
from assay.captures.manifest import Phase, Scalar, TensorEntry
from assay.captures.recording import cuts
from assay.captures.recording.options import CaptureOptions

SUMMARY = "*summary"  # name, among arrays, of the vector that stands for all tensors of a call


@dataclass(frozen=True, kw_only=True)
class TracedCall:
    """One call of one site. It can be hashed: it travels in the structure of a pytree."""

    site: str
    phase: Phase
    implementation: str | None
    scalars: tuple[tuple[str, Scalar], ...]
    orders: tuple[tuple[str, str], ...]  # of the axes of q, k, v and out in memory
    number: int = 0  # among the calls of the site in one run of the program
    countable: bool = True  # False in a loop whose turns cannot be told apart


@dataclass(frozen=True, kw_only=True)
class KeptTensors:
    """Entries of the tensors that are kept of a call, as the store will list them, and its cuts."""

    entries: tuple[tuple[str, TensorEntry], ...]
    cut: tuple[tuple[str, str], ...] = ()

    @property
    def stored(self) -> Mapping[str, TensorEntry]:
        """Entries of the tensors that were not left out."""
        return {name: entry for name, entry in self.entries if entry.why is None}

    def with_rows(self, times: int) -> "KeptTensors":
        """The same for `times` as many rows; a single row becomes as many as the others have."""
        if times == 1:
            return self
        most = max((entry.shape[0] for _, entry in self.entries if entry.shape), default=1)
        entries = []
        for name, entry in self.entries:
            if entry.shape:
                rows = most if entry.shape[0] == 1 else entry.shape[0]
                entry = msgspec.structs.replace(entry, shape=(rows * times, *entry.shape[1:]))
            entries.append((name, entry))
        return replace(self, entries=tuple(entries))


def keep(
    call: TracedCall, tensors: dict[str, jax.Array], options: CaptureOptions
) -> tuple[KeptTensors, dict[str, Any]]:
    """Entries of what is kept of a call, and the arrays that carry it: tensors or their summary."""
    if not options.outputs:
        results = ("out", "layer_out")
        tensors = {n: x for n, x in tensors.items() if n.partition(".")[0] not in results}
    scalars, orders = dict(call.scalars), dict(call.orders)
    cut = cuts.cut(
        tensors,
        options,
        causal=bool(scalars.get("causal")),
        alignment=str(scalars.get("alignment") or "bottom-right"),
    )
    entries = {
        name: TensorEntry(
            dtype=x.dtype.name,
            shape=tuple(cut.tensors.get(name, x).shape),
            order=orders.get(name),
            why=cut.why.get(name),
        )
        for name, x in tensors.items()
    }
    kept = KeptTensors(entries=tuple(entries.items()), cut=tuple(cut.cut.items()))
    arrays = jax.lax.stop_gradient(cut.tensors)
    if options.mode != "full":
        arrays = {SUMMARY: _summary(arrays, with_statistics=options.mode == "stats")}
    return kept, arrays


def _summary(tensors: dict[str, jax.Array], *, with_statistics: bool) -> jax.Array:
    """int32 [n]: how many rows of a vmap each row stands for, then perhaps the statistics.

    Under vmap there is one for all rows, since it is made of the merged tensors.
    """

    def of_rows(times: int) -> Callable[[dict[str, jax.Array]], jax.Array]:
        @jax.custom_batching.custom_vmap
        def summarise(tensors: dict[str, jax.Array]) -> jax.Array:
            parts = [jnp.full(1, times, jnp.int32)]
            if with_statistics:
                parts.append(statistics.pack(tensors))
            return jnp.concatenate(parts)

        @summarise.def_vmap
        def _(size: int, mapped: Any, tensors: dict[str, jax.Array]) -> tuple[jax.Array, bool]:
            return of_rows(times * size)(merge_rows(size, mapped[0], tensors)), False

        return summarise

    return of_rows(1)(tensors)


def merge_rows(
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
    merged = {}
    for name, x in whole.items():
        if x.ndim > 1:
            if x.shape[1] == 1 < rows:
                x = jnp.repeat(x, rows, axis=1)
            x = x.reshape(size * x.shape[1], *x.shape[2:])
        merged[name] = x
    return merged
