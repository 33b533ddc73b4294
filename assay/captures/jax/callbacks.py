"""Calls taken by callbacks: the form for programs that are called as always.

A run of the model fetches a ticket from the host when it begins, and every call carries it: what is
computed again has the same ticket, a second run has another. With the ticket comes which layers are
wanted, so that on other steps no tensor leaves the device.
"""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import io_callback

from assay.captures.jax import tap, trace
from assay.captures.jax.call import AttentionCall
from assay.captures.jax.collected import Collected, Collecting
from assay.captures.jax.frame import Group, Place, here
from assay.captures.jax.host import MOST_LAYERS, NO_STEP, NO_TICKET, THIS_RUN, Post
from assay.captures.recording.options import CaptureOptions
from assay.errors import BadInput


class Calling:
    """The sink of a frame whose calls go to the host by callbacks."""

    def __init__(
        self,
        post: Post,
        options: CaptureOptions,
        layers: Mapping[str, range],
        step: jax.Array | None,
    ) -> None:
        self._post = post
        self._options = options
        self._layers = layers  # of the frame; known in full once the program runs
        self._step = jnp.int32(NO_STEP) if step is None else jax.lax.stop_gradient(step)
        self._ticket, self._wanted = self._begun()
        # Summaries are small: those of a run are gathered and sent together, as far as that goes.
        self._gathered = Collecting(options) if options.mode != "full" else None

    def emit(self, call: AttentionCall, place: Place, tensors: dict[str, jax.Array]) -> None:
        """Put a callback into the program, or gather the call for one."""
        self._post.sites.add(call.site)
        if self._gathered and self._gathered.has_way_out:
            self._gathered.emit(call, place, tensors)
            return
        layer = jnp.int32(place.layer)
        tap.tap(
            self._post.record,
            call,
            self._options,
            wanted=self._wanted[jnp.minimum(layer, MOST_LAYERS - 1)],
            key=_vector(self._ticket, layer, shard(), *place.iterations),
            tensors=tensors,
        )

    def enter(self, group: Group | None) -> Any:
        """Callbacks leave any body by themselves, what is gathered is handed out of it."""
        return self._gathered.enter(group) if self._gathered else None

    def leave(self, before: Any) -> Any:
        return self._gathered.leave(before) if self._gathered else ()

    def give(self, handed: Any) -> None:
        """Gathered calls, out of a body; sent at once where they cannot go further."""
        if not self._gathered:
            return
        if self._gathered.has_way_out:
            self._gathered.give(handed)
        else:
            self._send(handed)

    def end(self) -> None:
        """Send what was gathered. Where nothing is compiled, wait for all callbacks of the run."""
        if self._gathered:
            self._send(self._gathered.collected())
        if not trace.tracing():
            jax.effects_barrier()

    def _send(self, gathered: Collected) -> None:
        if gathered.told:
            tap.send(
                functools.partial(self._post.gathered, gathered.told),
                wanted=self._wanted.any(),
                key=_vector(self._ticket, shard()),
                arrays=gathered.arrays,
            )

    def _begun(self) -> tuple[jax.Array, jax.Array]:
        everything = jnp.ones(MOST_LAYERS, dtype=bool)
        if not trace.tracing():
            self._post.begin_here(int(self._step))
            return jnp.int32(THIS_RUN), everything
        if within := trace.refusing_host_values():
            if self._post.step is None:
                raise BadInput(
                    f"the model is called in {within}, where steps cannot be counted; say the "
                    "step: with capture.step(n):"
                )
            return jnp.int32(NO_TICKET), everything
        given = (
            jax.ShapeDtypeStruct((), jnp.int32),
            jax.ShapeDtypeStruct((MOST_LAYERS,), jnp.bool_),
        )
        begin = functools.partial(self._post.begin, self._layers)
        # A ticket of its own in each turn of a loop: where nothing in it differs from turn to turn,
        # differentiating a scan takes a call out of it.
        turns = [jax.lax.stop_gradient(turn) for turn in here.turns]
        return io_callback(begin, given, jnp.int32(self._step), shard(), *turns)


def _vector(*numbers: Any) -> jax.Array:
    return jnp.stack([jnp.int32(number) for number in numbers])


def shard() -> Any:
    """Which part of a shard_map this program is; -1 where there is none."""
    mesh = jax.sharding.get_abstract_mesh()
    names = tuple(mesh.manual_axes)
    return jax.lax.axis_index(names).astype(jnp.int32) if names else jnp.int32(-1)
