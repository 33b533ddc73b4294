"""One forward pass of a captured model while it is traced: its loops, its sites, where calls go.

Passes are kept per thread. They nest: with two captures at once every call of the model opens one
pass for each.
"""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from assay.captures.jax import trace
from assay.captures.jax.traced_call import TracedCall


@dataclass(frozen=True, eq=False)
class Loop:
    """One loop of a program; `length` is None where only running it tells."""

    length: int | None
    hands_out: bool = True  # its body can return more than its own results


@dataclass(frozen=True, eq=False)
class LoopTurn:
    """A loop whose body is being traced, at its traced index."""

    loop: Loop
    index: jax.Array


@dataclass(frozen=True, kw_only=True)
class CallPosition:
    """Position of a call in the model. `layer` may be traced; `indices` are of the loops around
    the model, and of those in it whose length is not known."""

    first_layer: int
    layer: jax.Array | int
    indices: tuple[jax.Array, ...]
    loops: tuple[tuple[Loop, bool], ...]  # outermost first, and whether it runs over layers


class Sink(Protocol):
    """Receiver of the calls of one forward pass."""

    def emit(self, call: TracedCall, position: CallPosition, tensors: dict[str, jax.Array]) -> None:
        """Take one call."""

    def enter(self, loop: Loop | None) -> Any:
        """Begin a body, of a loop or a checkpoint, whose values must be handed out of it."""

    def leave(self, before: Any) -> Any:
        """End that body; the values that it must hand out."""

    def give(self, values: Any) -> None:
        """Take what a body handed out, stacked where it was the body of a loop."""

    def end(self) -> None:
        """End the forward pass."""


class ForwardPass:
    """One forward pass of a model, or of a checkpoint around it."""

    sink: Sink

    def __init__(self, capture: object) -> None:
        self.capture = capture
        self.turns: list[LoopTurn] = []
        self.modules: list[Any] = []  # Flax modules whose methods are running, outermost first
        self.model_depth = 0  # how many of them are the model that is captured
        self.detectors: list[Any] = []  # one for each attention that is running
        self.layers: dict[str, range] = {}  # by site, filled while the program is traced
        self.counts: dict[str, int] = {}  # calls of each site so far
        self._traces = len(trace.traces())
        self._outer_loops = 0
        self._numbered: dict[tuple[Any, ...], range] = {}

    def begin_model(self) -> None:
        """Begin a call of a whole model: its layers are counted from 0."""
        self._outer_loops = len(self.turns)
        self._numbered = {}

    def count(self, site: str) -> int:
        """Number of this call of `site` in the program, from 0."""
        self.counts[site] = self.counts.get(site, -1) + 1
        return self.counts[site]

    def countable(self) -> bool:
        """True where every loop since the pass began is known. One is not where the program got it
        by `from jax.lax import scan` before the capture began."""
        now = trace.traces()
        loops = [name for name in now[: len(now) - self._traces] if name in trace.LOOPS]
        return len(loops) <= len(self.turns)

    def position(self, site: str) -> CallPosition:
        """Position of a call of `site` that is made now."""
        over_layers = [t for t in self.turns[self._outer_loops :] if t.loop.length is not None]
        numbers = self._numbers(site, over_layers)
        layer: jax.Array | int = numbers.start
        if over_layers:
            offset = jnp.int32(0)
            for turn in over_layers:
                offset = offset * turn.loop.length + turn.index
            layer = numbers.start + offset
        return CallPosition(
            first_layer=numbers.start,
            layer=layer,
            indices=tuple(turn.index for turn in self.turns if turn not in over_layers),
            loops=tuple((turn.loop, turn in over_layers) for turn in self.turns),
        )

    def _numbers(self, site: str, over_layers: Sequence[LoopTurn]) -> range:
        """Numbers of a site's layers: sites of one loop share them, others follow each other in the
        order in which they are first called."""
        key: tuple[Any, ...] = tuple(turn.loop for turn in over_layers) or (site,)
        if key not in self._numbered:
            first = max((numbers.stop for numbers in self._numbered.values()), default=0)
            size = math.prod(turn.loop.length or 1 for turn in over_layers)
            self._numbered[key] = range(first, first + size)
        numbers = self._numbered[key]
        known = self.layers.get(site, numbers)
        self.layers[site] = range(min(known.start, numbers.start), max(known.stop, numbers.stop))
        return numbers


@dataclass
class _Active(threading.local):
    """Forward passes that are active in this thread, and the captures that may begin more."""

    passes: list[ForwardPass] = field(default_factory=list)
    captures: list[Any] = field(default_factory=list)
    loop_indices: list[jax.Array] = field(default_factory=list)  # of all loops, in passes or not
    ignoring: int = 0  # depth of functions whose own parts are no calls of their own


active = _Active()
