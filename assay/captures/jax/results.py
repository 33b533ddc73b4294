"""Calls as results of a function: a pytree that leaves scans, checkpoints and has_aux whole.

Arrays of a call in a loop are stacked by it, one more leading axis for each loop, outermost first.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax

from assay.captures.jax import trace as jax_trace
from assay.captures.jax.forward_pass import CallPosition, Loop
from assay.captures.jax.traced_call import SUMMARY, KeptTensors, TracedCall, keep
from assay.captures.recording.options import CaptureOptions
from assay.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class StackedCall:
    """A collected call without its arrays."""

    call: TracedCall
    kept: KeptTensors
    first_layer: int
    loops: tuple[tuple[int, bool], ...] = ()  # length, and whether it runs over layers
    within: tuple[tuple[int, bool], ...] = ()  # those that it has not left yet

    def leaving(self, length: int) -> "StackedCall":
        """The same, stacked by the innermost loop that it is in."""
        *outer, innermost = self.within
        assert innermost[0] == length
        return replace(self, loops=(innermost, *self.loops), within=tuple(outer))


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class CollectedCalls:
    """Calls that a function made, in the order of its program, with their arrays."""

    calls: tuple[StackedCall, ...]
    arrays: tuple[dict[str, Any], ...]

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[StackedCall, ...]]:
        return self.arrays, self.calls

    @classmethod
    def tree_unflatten(cls, calls: tuple[StackedCall, ...], arrays: Any) -> "CollectedCalls":
        return cls(calls, tuple(arrays))


class ResultSink:
    """Sink of a forward pass whose calls become results."""

    def __init__(self, options: CaptureOptions) -> None:
        self._options = options
        self._calls: list[StackedCall] = []
        self._arrays: list[dict[str, Any]] = []
        self._state = jax_trace.state()
        self._stuck: str | None = None

    def emit(self, call: TracedCall, position: CallPosition, tensors: dict[str, jax.Array]) -> None:
        """Keep one call."""
        self._require_way_out(call)
        kept, arrays = keep(call, tensors, self._options)
        loops = tuple((loop.length or 0, layers) for loop, layers in position.loops)
        self._calls.append(
            StackedCall(call=call, kept=kept, first_layer=position.first_layer, within=loops)
        )
        self._arrays.append(arrays)

    def enter(self, loop: Loop | None) -> Any:
        """Begin the body of a loop or of a checkpoint."""
        before = self._calls, self._arrays, self._state, self._stuck, loop
        self._calls, self._arrays, self._state = [], [], jax_trace.state()
        if loop and not loop.hands_out:
            self._stuck = "a while or fori loop"
        return before

    def leave(self, before: Any) -> CollectedCalls:
        """End the body; its calls, to be returned beside its results."""
        *outer, loop = before
        calls = tuple(call.leaving(loop.length) if loop else call for call in self._calls)
        collected = CollectedCalls(calls, tuple(self._arrays))
        self._calls, self._arrays, self._state, self._stuck = outer
        return collected

    def give(self, collected: CollectedCalls) -> None:
        """Take the calls that a body returned."""
        for stacked in collected.calls:
            self._require_way_out(stacked.call)
        self._calls += collected.calls
        self._arrays += collected.arrays

    @property
    def has_way_out(self) -> bool:
        """True where a call made here and now can be handed on to where collecting began."""
        return not self._stuck and jax_trace.state() == self._state

    def _require_way_out(self, call: TracedCall) -> None:
        if not self.has_way_out:
            within = self._stuck or f"a trace of its own ({', '.join(jax_trace.traces())})"
            raise BadInput(
                f"{call.site} is called within {within}, out of which collect cannot bring its "
                "tensors; collect a function that calls the model by itself or in jax.lax.scan, "
                "or do without collect: then callbacks record them"
            )

    def end(self) -> None:
        """Nothing is left to do: the calls are fetched by `collected`."""

    def collected(self) -> CollectedCalls:
        return CollectedCalls(tuple(self._calls), tuple(self._arrays))


@dataclass(frozen=True, kw_only=True)
class SingleCall:
    """One call out of those that loops have stacked."""

    stacked: StackedCall
    layer: int
    nbytes: int
    turns: tuple[int, ...]  # of loops that do not run over layers
    index: tuple[int, ...]  # in the stacked arrays
    stacked_arrays: dict[str, Any]

    def arrays(self) -> dict[str, Any]:
        """Its arrays, on their way to the host: the rest of what is stacked can be let go."""
        arrays = {name: array[self.index] for name, array in self.stacked_arrays.items()}
        for array in arrays.values():
            if hasattr(array, "copy_to_host_async"):
                array.copy_to_host_async()
        return arrays


def unstacked(collected: CollectedCalls) -> Iterator[SingleCall]:
    """The calls one by one: of each site the outermost loop first."""
    for stacked, arrays in zip(collected.calls, collected.arrays, strict=True):
        _check(stacked, arrays)
        lengths = [length for length, _ in stacked.loops]
        nbytes = sum(array.size * array.dtype.itemsize for array in arrays.values())
        for index in itertools.product(*map(range, lengths)):
            layer, turns = 0, []
            for turn, (length, layers) in zip(index, stacked.loops, strict=True):
                if layers:
                    layer = layer * length + turn
                else:
                    turns.append(turn)
            yield SingleCall(
                stacked=stacked,
                layer=stacked.first_layer + layer,
                nbytes=nbytes // max(1, math.prod(lengths)),
                turns=tuple(turns),
                index=index,
                stacked_arrays=arrays,
            )


def _check(stacked: StackedCall, arrays: dict[str, Any]) -> None:
    """Refuse arrays that are no longer as they were collected, or not all here."""
    lengths = tuple(length for length, _ in stacked.loops)
    for name, array in arrays.items():
        shape = (array.shape[-1],) if name == SUMMARY else stacked.kept.stored[name].shape
        if tuple(array.shape) != (*lengths, *shape):
            raise BadInput(
                f"{name} of {stacked.call.site} has shape {tuple(array.shape)}, it was collected "
                f"as {(*lengths, *shape)}; save what the collected function returned, outside of "
                "vmap"
            )
        if not getattr(array, "is_fully_addressable", True):
            raise BadInput(
                f"{name} of {stacked.call.site} lies on devices of several processes; return it "
                "replicated, or save its shards by themselves"
            )
