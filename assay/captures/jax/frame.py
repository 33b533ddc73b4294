"""One run of a captured model while it is traced: the loops it is in, its sites, where they go.

Frames are kept per thread. They nest: with two captures at once every call of the model opens one
frame for each.
"""

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from assay.captures.jax import trace
from assay.captures.jax.call import AttentionCall


@dataclass(frozen=True, eq=False)
class Group:
    """One loop of a program; `length` is None where only running it tells."""

    length: int | None
    hands_out: bool = True  # whether its body can return more than its own results


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop whose body is being traced, at its traced index."""

    group: Group
    index: jax.Array


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where in the model a call is. `layer` may be traced; `iterations` are of the loops around
    the model, and of those in it whose length is not known."""

    first_layer: int
    layer: jax.Array | int
    iterations: tuple[jax.Array, ...]
    loops: tuple[tuple[Group, bool], ...]  # outermost first, and whether it runs over layers


class Sink(Protocol):
    """Where the calls of one frame go."""

    def emit(self, call: AttentionCall, place: Place, tensors: dict[str, jax.Array]) -> None:
        """Take one call."""

    def enter(self, group: Group | None) -> Any:
        """Begin a part of the program whose values must be handed out of it."""

    def leave(self, before: Any) -> Any:
        """End that part; what it must hand out."""

    def give(self, handed: Any) -> None:
        """Take what a part handed out, stacked where it was the body of a loop."""

    def end(self) -> None:
        """The run is over."""


class Frame:
    """One run of a model, or of a checkpoint around it."""

    sink: Sink

    def __init__(self, owner: object) -> None:
        self.owner = owner
        self.loops: list[Loop] = []
        self.modules: list[Any] = []  # Flax modules whose methods are running, outermost first
        self.inside = 0  # how many of them are the model that was asked for
        self.watches: list[Any] = []  # one for each attention that is running
        self.layers: dict[str, range] = {}  # by site, filled while the program is traced
        self.counts: dict[str, int] = {}  # calls of each site so far
        self._traces = len(trace.traces())
        self._outer_loops = 0
        self._numbered: dict[tuple[Any, ...], range] = {}

    def begin_model(self) -> None:
        """A call of a whole model begins: its layers are counted from 0."""
        self._outer_loops = len(self.loops)
        self._numbered = {}

    def count(self, site: str) -> int:
        """How often the program called `site` before, in this frame."""
        self.counts[site] = self.counts.get(site, -1) + 1
        return self.counts[site]

    def countable(self) -> bool:
        """Whether every loop since the frame was opened is known. One is not where the program
        got it by `from jax.lax import scan` before the capture began."""
        now = trace.traces()
        loops = [name for name in now[: len(now) - self._traces] if name in trace.LOOPS]
        return len(loops) <= len(self.loops)

    def place(self, site: str) -> Place:
        """Where a call of `site` is, now."""
        layers = [loop for loop in self.loops[self._outer_loops :] if loop.group.length is not None]
        numbers = self._numbers(site, layers)
        layer: jax.Array | int = numbers.start
        if layers:
            offset = jnp.int32(0)
            for loop in layers:
                offset = offset * loop.group.length + loop.index
            layer = numbers.start + offset
        return Place(
            first_layer=numbers.start,
            layer=layer,
            iterations=tuple(loop.index for loop in self.loops if loop not in layers),
            loops=tuple((loop.group, loop in layers) for loop in self.loops),
        )

    def _numbers(self, site: str, layers: Sequence[Loop]) -> range:
        """The numbers of a site's layers: sites of one loop share them, others follow each other
        in the order in which they are first called."""
        key: tuple[Any, ...] = tuple(loop.group for loop in layers) or (site,)
        if key not in self._numbered:
            first = max((found.stop for found in self._numbered.values()), default=0)
            size = math.prod(loop.group.length or 1 for loop in layers)
            self._numbered[key] = range(first, first + size)
        numbers = self._numbered[key]
        known = self.layers.get(site, numbers)
        self.layers[site] = range(min(known.start, numbers.start), max(known.stop, numbers.stop))
        return numbers


@dataclass
class _Open(threading.local):
    """What is open in this thread: frames, and the captures that may open more."""

    frames: list[Frame] = field(default_factory=list)
    captures: list[Any] = field(default_factory=list)
    turns: list[jax.Array] = field(default_factory=list)  # indices of all loops, in frames or not
    looking_away: int = 0  # inside a function whose own parts are no calls of their own


here = _Open()


class Parts:
    """The body of one loop or checkpoint, which may be traced more than once."""

    def __init__(self, group: Group | None = None) -> None:
        self.group = group
        self._frames = list(here.frames)
        self._counts = [dict(frame.counts) for frame in self._frames]

    @contextmanager
    def traced(self, index: jax.Array | None = None) -> Iterator[list[Any]]:
        """One tracing of the body. The list that it gives is filled at its end with what the body
        must return beside its own results; `take` gets that on the other side."""
        handed: list[Any] = []
        before = []
        for frame, counts in zip(self._frames, self._counts, strict=True):
            frame.counts = dict(counts)
            before.append(frame.sink.enter(self.group))
            if self.group:
                assert index is not None
                frame.loops.append(Loop(self.group, index))
        if index is not None:
            here.turns.append(index)
        try:
            with trace.unshared():
                yield handed
        finally:
            if index is not None:
                here.turns.pop()
            for frame, kept in zip(self._frames, before, strict=True):
                if self.group:
                    frame.loops.pop()
                handed.append(frame.sink.leave(kept))

    def take(self, handed: Sequence[Any]) -> None:
        """Pass on what the body handed out."""
        for frame, one in zip(self._frames, handed, strict=True):
            frame.sink.give(one)
