"""Calls taken as results of a function: a pytree that leaves scans, checkpoints and has_aux whole.

Arrays of a call in a loop are stacked by it, one more leading axis for each loop, outermost first.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax

from assay.captures.jax import tap
from assay.captures.jax import trace as jax_trace
from assay.captures.jax.call import SUMMARY, AttentionCall, Kept
from assay.captures.jax.frame import Group, Place
from assay.captures.recording.options import CaptureOptions
from assay.errors import BadInput


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

    def __init__(self, options: CaptureOptions) -> None:
        self._options = options
        self._told: list[Told] = []
        self._arrays: list[dict[str, Any]] = []
        self._state = jax_trace.state()
        self._stuck: str | None = None

    def emit(self, call: AttentionCall, place: Place, tensors: dict[str, jax.Array]) -> None:
        """Keep one call."""
        self.require_way_out(call)
        kept, arrays = tap.kept(call, tensors, self._options)
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
            self.require_way_out(told.call)
        self._told += handed.told
        self._arrays += handed.arrays

    @property
    def has_way_out(self) -> bool:
        """Whether what is taken here and now can be handed on to where collecting began."""
        return not self._stuck and jax_trace.state() == self._state

    def require_way_out(self, call: AttentionCall) -> None:
        if not self.has_way_out:
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

    told: Told
    layer: int
    nbytes: int
    turns: tuple[int, ...]  # of loops that do not run over layers
    place: tuple[int, ...]  # in the stacked arrays
    stacked: dict[str, Any]

    def taken(self) -> dict[str, Any]:
        """Its arrays, on their way to the host: the rest of what is stacked can be let go."""
        found = {name: array[self.place] for name, array in self.stacked.items()}
        for array in found.values():
            if hasattr(array, "copy_to_host_async"):
                array.copy_to_host_async()
        return found


def calls(collected: Collected) -> Iterator[One]:
    """The calls one by one: of each site the outermost loop first."""
    for told, arrays in zip(collected.told, collected.arrays, strict=True):
        _check(told, arrays)
        lengths = [length for length, _ in told.loops]
        nbytes = sum(array.size * array.dtype.itemsize for array in arrays.values())
        for place in itertools.product(*map(range, lengths)):
            layer, turns = 0, []
            for index, (length, layers) in zip(place, told.loops, strict=True):
                if layers:
                    layer = layer * length + index
                else:
                    turns.append(index)
            yield One(
                told=told,
                layer=told.first_layer + layer,
                nbytes=nbytes // max(1, math.prod(lengths)),
                turns=tuple(turns),
                place=place,
                stacked=arrays,
            )


def _check(told: Told, arrays: dict[str, Any]) -> None:
    """Refuse arrays that are no longer what was taken, or not all here."""
    lengths = tuple(length for length, _ in told.loops)
    for name, array in arrays.items():
        shape = (array.shape[-1],) if name == SUMMARY else told.kept.stored[name].shape
        if tuple(array.shape) != (*lengths, *shape):
            raise BadInput(
                f"{name} of {told.call.site} has shape {tuple(array.shape)}, it was taken as "
                f"{(*lengths, *shape)}; save what the collected function returned, outside of vmap"
            )
        if not getattr(array, "is_fully_addressable", True):
            raise BadInput(
                f"{name} of {told.call.site} lies on devices of several processes; return it "
                "replicated, or save its shards by themselves"
            )
