"""Calls taken as results of a function: a pytree that leaves scans, checkpoints and has_aux whole.

Arrays of a call in a loop are stacked by it, one more leading axis for each loop, outermost first.
"""

import itertools
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from assay.capture import jax_tap, jax_trace
from assay.capture.jax_call import AttentionCall, Kept
from assay.capture.jax_frame import Group, Place
from assay.errors import BadInput
from assay.workloads.selection import Options


@dataclass(frozen=True, kw_only=True)
class Told:
    """All of a collected call but its arrays."""

    call: AttentionCall
    kept: Kept
    first_layer: int
    loops: tuple[tuple[int, bool], ...] = ()  # length, and whether it runs over layers
    within: tuple[tuple[int, bool], ...] = ()  # those that it has not left yet

    def leaving(self, length: int) -> "Told":
        """The same, stacked by the innermost loop that it is in."""
        *outer, innermost = self.within
        assert innermost[0] == length
        return replace(self, loops=(innermost, *self.loops), within=tuple(outer))


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class Collected:
    """Calls that a function took, in the order of its program."""

    told: tuple[Told, ...]
    arrays: tuple[dict[str, Any], ...]

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Told, ...]]:
        return self.arrays, self.told

    @classmethod
    def tree_unflatten(cls, told: tuple[Told, ...], arrays: Any) -> "Collected":
        return cls(told, tuple(arrays))


class Collecting:
    """The sink of a frame whose calls become results."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._told: list[Told] = []
        self._arrays: list[dict[str, Any]] = []
        self._state = jax_trace.state()
        self._stuck: str | None = None

    def emit(self, call: AttentionCall, place: Place, tensors: dict[str, jax.Array]) -> None:
        """Keep one call."""
        self._require_way_out(call)
        kept, arrays = jax_tap.kept(call, tensors, self._options)
        loops = tuple((group.length or 0, layers) for group, layers in place.loops)
        self._told.append(Told(call=call, kept=kept, first_layer=place.first_layer, within=loops))
        self._arrays.append(arrays)

    def enter(self, group: Group | None) -> Any:
        """The body of a scan or of a checkpoint begins."""
        before = self._told, self._arrays, self._state, self._stuck, group
        self._told, self._arrays, self._state = [], [], jax_trace.state()
        if group and not group.hands_out:
            self._stuck = "a while or fori loop"
        return before

    def leave(self, before: Any) -> Collected:
        """The body ends; its calls, to be returned beside its results."""
        *kept, group = before
        told = tuple(one.leaving(group.length) if group else one for one in self._told)
        found = Collected(told, tuple(self._arrays))
        self._told, self._arrays, self._state, self._stuck = kept
        return found

    def give(self, handed: Collected) -> None:
        """Calls of a body, out of it again."""
        for told in handed.told:
            self._require_way_out(told.call)
        self._told += handed.told
        self._arrays += handed.arrays

    def _require_way_out(self, call: AttentionCall) -> None:
        if self._stuck or jax_trace.state() != self._state:
            within = self._stuck or f"a trace of its own ({', '.join(jax_trace.traces())})"
            raise BadInput(
                f"{call.site} is called within {within}, out of which collect cannot bring its "
                "tensors; collect a function that calls the model by itself or in jax.lax.scan, "
                "or do without collect: then callbacks take them"
            )

    def end(self) -> None:
        """What was taken is asked for by `collected`."""

    def collected(self) -> Collected:
        return Collected(tuple(self._told), tuple(self._arrays))


@dataclass(frozen=True, kw_only=True)
class One:
    """One call of a Collected."""

    call: AttentionCall
    kept: Kept
    layer: int
    iterations: tuple[int, ...]
    nbytes: int
    load: Callable[[], dict[str, Any]]  # its arrays, on the host


def calls(collected: Collected) -> Iterator[One]:
    """The calls one by one; their arrays begin their way to the host and are waited for later."""
    for told, arrays in zip(collected.told, collected.arrays, strict=True):
        stacked = _Stacked(told, arrays)
        lengths = [length for length, _ in told.loops]
        nbytes = stacked.nbytes // max(1, math.prod(lengths))
        for place in itertools.product(*map(range, lengths)):
            layer, iterations = 0, []
            for index, (length, layers) in zip(place, told.loops, strict=True):
                if layers:
                    layer = layer * length + index
                else:
                    iterations.append(index)
            yield One(
                call=told.call,
                kept=told.kept,
                layer=told.first_layer + layer,
                iterations=tuple(iterations),
                nbytes=nbytes,
                load=lambda place=place, stacked=stacked: stacked.at(place),
            )


class _Stacked:
    """The arrays of one site, copied to the host once for all its layers."""

    def __init__(self, told: Told, arrays: dict[str, Any]) -> None:
        self._told = told
        self._arrays: Any = arrays
        self._lock = threading.Lock()
        self._here = False
        leaves = jax.tree.leaves(arrays)
        self.nbytes = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
        for name, entry in told.kept.stored.items():
            if name in arrays and hasattr(arrays[name], "shape"):
                self._check(name, arrays[name], entry.shape)
        for leaf in leaves:
            if hasattr(leaf, "copy_to_host_async"):
                leaf.copy_to_host_async()

    def at(self, place: tuple[int, ...]) -> dict[str, Any]:
        with self._lock:
            if not self._here:
                self._arrays = jax.tree.map(np.asarray, self._arrays)
                self._here = True
        return jax.tree.map(lambda leaf: leaf[place], self._arrays)

    def _check(self, name: str, array: Any, shape: tuple[int, ...]) -> None:
        wanted = (*(length for length, _ in self._told.loops), *shape)
        if tuple(array.shape) != wanted:
            raise BadInput(
                f"{name} of {self._told.call.site} has shape {tuple(array.shape)}, it was taken as "
                f"{wanted}; save what the collected function returned, outside of vmap"
            )
        if not getattr(array, "is_fully_addressable", True):
            raise BadInput(
                f"{name} of {self._told.call.site} lies on devices of several processes; return it "
                "replicated, or save its shards by themselves"
            )
