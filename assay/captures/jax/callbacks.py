"""Calls recorded by callbacks: the form for programs that are called as always.

A run of the model fetches a ticket from the host when it begins, and every call carries it: what is
computed again has the same ticket, a second run has another. With the ticket comes which layers are
wanted, so that on other steps no tensor leaves the device.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import io_callback

from assay.captures.jax import trace
from assay.captures.jax.forward_pass import CallPosition, Loop, active
from assay.captures.jax.recorder import MOST_LAYERS, NO_STEP, NO_TICKET, THIS_RUN, JaxRecorder
from assay.captures.jax.results import CollectedCalls, ResultSink
from assay.captures.jax.traced_call import TracedCall, keep, merge_rows
from assay.captures.recording.options import CaptureOptions
from assay.errors import BadInput


class CallbackSink:
    """Sink of a forward pass whose calls go to the host by callbacks."""

    def __init__(
        self,
        recorder: JaxRecorder,
        options: CaptureOptions,
        layers: Mapping[str, range],
        step: jax.Array | None,
    ) -> None:
        self._recorder = recorder
        self._options = options
        self._layers = layers  # of the forward pass; known in full once the program runs
        self._step = jnp.int32(NO_STEP) if step is None else jax.lax.stop_gradient(step)
        self._ticket, self._wanted = self._begin()
        # Summaries are small: those of a run are gathered and sent together, as far as possible.
        self._gathered = ResultSink(options) if options.mode != "full" else None

    def emit(self, call: TracedCall, position: CallPosition, tensors: dict[str, jax.Array]) -> None:
        """Put a callback into the program, or gather the call for one."""
        self._recorder.sites.add(call.site)
        if self._gathered and self._gathered.has_way_out:
            self._gathered.emit(call, position, tensors)
            return

        def hand_over(wanted: jax.Array, key: jax.Array, tensors: dict[str, jax.Array]) -> None:
            kept, arrays = keep(call, tensors, self._options)
            receive = functools.partial(self._recorder.receive, call, kept)
            _call_host(receive, wanted, key, arrays)

        layer = jnp.int32(position.layer)
        wanted = self._wanted[jnp.minimum(layer, MOST_LAYERS - 1)]
        key = _vector(self._ticket, layer, shard(), *position.indices)
        _exactly_once(hand_over, merge_rows, wanted, key, tensors)

    def enter(self, loop: Loop | None) -> Any:
        """Begin a body: callbacks leave it by themselves, what is gathered is handed out of it."""
        return self._gathered.enter(loop) if self._gathered else None

    def leave(self, before: Any) -> Any:
        return self._gathered.leave(before) if self._gathered else ()

    def give(self, calls: Any) -> None:
        """Take gathered calls out of a body; send them at once where they cannot go further."""
        if not self._gathered:
            return
        if self._gathered.has_way_out:
            self._gathered.give(calls)
        else:
            self._send(calls)

    def end(self) -> None:
        """Send what was gathered. Where nothing is compiled, wait for all callbacks of the run."""
        if self._gathered:
            self._send(self._gathered.collected())
        if not trace.tracing():
            jax.effects_barrier()

    def _send(self, gathered: CollectedCalls) -> None:
        if gathered.calls:
            receive = functools.partial(self._recorder.receive_all, gathered.calls)
            _exactly_once(
                functools.partial(_call_host, receive),
                lambda size, mapped, arrays: arrays,  # the same for all rows of a vmap
                self._wanted.any(),
                _vector(self._ticket, shard()),
                gathered.arrays,
            )

    def _begin(self) -> tuple[jax.Array, jax.Array]:
        """Ticket of the run, int32 [], and which layers are wanted, bool [MOST_LAYERS]."""
        everything = jnp.ones(MOST_LAYERS, dtype=bool)
        if not trace.tracing():
            self._recorder.begin_here(int(self._step))
            return jnp.int32(THIS_RUN), everything
        if within := trace.refusing_host_values():
            if self._recorder.step is None:
                raise BadInput(
                    f"the model is called in {within}, where steps cannot be counted; say the "
                    "step: with capture.step(n):"
                )
            return jnp.int32(NO_TICKET), everything
        shapes = (
            jax.ShapeDtypeStruct((), jnp.int32),
            jax.ShapeDtypeStruct((MOST_LAYERS,), jnp.bool_),
        )
        begin = functools.partial(self._recorder.begin, self._layers)
        # A ticket of its own in each turn of a loop: where nothing in it differs from turn to turn,
        # differentiating a scan takes a call out of it.
        turns = [jax.lax.stop_gradient(index) for index in active.loop_indices]
        return io_callback(begin, shapes, jnp.int32(self._step), shard(), *turns)


def _exactly_once(
    hand_over: Callable[..., None],
    merge: Callable[..., Any],
    wanted: jax.Array,
    key: jax.Array,
    arrays: Any,
) -> None:
    """Have `hand_over(wanted, key, arrays)` called once in whatever the program is put into.

    It is then no part of derivatives, a checkpoint does not compute it again, and under vmap it
    gets the whole batch, as `merge` makes it. The last two hold because of custom_vmap: an effect
    in it is kept, and kept out of recomputation.
    """

    @jax.custom_batching.custom_vmap
    def once(wanted: jax.Array, key: jax.Array, arrays: Any) -> tuple[()]:
        hand_over(wanted, key, arrays)
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


def _call_host(
    receive: Callable[..., None], wanted: jax.Array, key: jax.Array, arrays: Any
) -> None:
    """Call `receive(key, arrays)` on the host, in a branch that is taken where it is wanted."""
    callback = functools.partial(jax.debug.callback, receive)
    jax.lax.cond(wanted, callback, lambda key, arrays: None, key, arrays)


def _vector(*numbers: Any) -> jax.Array:
    return jnp.stack([jnp.int32(number) for number in numbers])


def shard() -> Any:
    """Number of the shard_map part that this program is; -1 where there is none."""
    mesh = jax.sharding.get_abstract_mesh()
    names = tuple(mesh.manual_axes)
    return jax.lax.axis_index(names).astype(jnp.int32) if names else jnp.int32(-1)
