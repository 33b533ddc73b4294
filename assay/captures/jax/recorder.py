"""Recorder of running JAX programs, on the host: numbers the model's runs, makes records of calls.

Called from threads of the runtime, while programs run. Nothing here calls JAX, nothing waits for
the disk, and no error gets back into the program: what goes wrong is counted as a loss.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from assay.captures.jax import statistics
from assay.captures.jax.results import CollectedCalls, StackedCall, unstacked
from assay.captures.jax.traced_call import SUMMARY, KeptTensors, TracedCall
from assay.captures.manifest import Key, Phase
from assay.captures.recording import Recording
from assay.captures.recording.captured_call import CapturedCall, LoadedTensors
from assay.captures.tensor import tensor_of

MOST_LAYERS = 1024  # beyond it a layer is not asked for by itself
NO_TICKET = -1  # the step is what the user says
THIS_RUN = -2  # the run that was begun last without a program
NO_STEP = -1
UNCOUNTED = "a turn of a loop that is not jax.lax's by name, of which the first is kept"
_MOST_REMEMBERED = 1 << 16


class JaxRecorder:
    """Receiver of what programs send. It outlives the capture, as compiled programs do."""

    def __init__(self, recording: Recording, *, device: str, phase: Phase | None) -> None:
        self._recording: Recording | None = recording
        self._device = device
        self._phase = phase
        self._lock = threading.Lock()
        self._ticket = 0
        self._this_run = NO_TICKET
        self._steps: OrderedDict[int, tuple[int, int]] = OrderedDict()  # step and shard by ticket
        self._next_steps: dict[int, int] = {}  # by shard
        self._numbers: OrderedDict[tuple[int, int, str], dict[tuple, int]] = OrderedDict()
        self.step: int | None = None  # what the user says it is
        self.sites: set[str] = set()  # that were traced
        self.late = 0

    def close(self) -> None:
        """Let go of the recording: whatever still arrives is counted and left."""
        with self._lock:
            self._recording = None

    def begin(
        self, layers: Mapping[str, range], step: Any, shard: Any, *turns: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Begin a run of a model: its ticket, and which of its layers are wanted.

        Where none are known the run has none, or shows them otherwise: it becomes a step when its
        first call arrives.
        """
        wanted = np.zeros(MOST_LAYERS, dtype=bool)
        ticket = NO_TICKET
        try:
            with self._lock:
                if self._recording:
                    ticket = self._new_ticket(int(step), int(shard))
                    if layers:
                        self._mark_wanted(self._recording, layers, ticket, int(shard), wanted)
                    else:
                        wanted[:] = True
        except Exception as error:
            self._lose("the beginning of a step failed", error)
        return np.int32(ticket), wanted

    def begin_here(self, step: int) -> None:
        """Begin a run of a model that is not compiled, in the thread of the caller."""
        with self._lock:
            self._this_run = self._new_ticket(step, -1)

    def receive(
        self, call: TracedCall, kept: KeptTensors, key: Any, arrays: Mapping[str, Any]
    ) -> None:
        """Take one call. The key is its ticket, layer, shard, and the turns of other loops."""
        try:
            ticket, layer, shard, *turns = (int(n) for n in np.asarray(key))
            self._record(call, kept, ticket, layer, shard, tuple(turns), arrays)
        except Exception as error:
            self._lose("the callback failed", error)

    def receive_all(
        self, calls: tuple[StackedCall, ...], key: Any, arrays: tuple[Mapping[str, Any], ...]
    ) -> None:
        """Take all calls of a run together. The key is their ticket and shard."""
        try:
            ticket, shard = (int(n) for n in np.asarray(key))
            on_host = tuple({name: np.asarray(x) for name, x in each.items()} for each in arrays)
            for single in unstacked(CollectedCalls(calls, on_host)):
                call, kept = single.stacked.call, single.stacked.kept
                layer, turns = single.layer, single.turns
                self._record(call, kept, ticket, layer, shard, turns, single.arrays())
        except Exception as error:
            self._lose("the callback failed", error)

    def put(
        self,
        recording: Recording,
        key: Key,
        call: TracedCall,
        kept: KeptTensors,
        *,
        nbytes: int,
        arrays: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Hand a call to the writer; `arrays` is asked for them unless it is turned away."""
        if recording.turned_away(key, nbytes):
            return
        held = arrays()
        recording.put(
            CapturedCall(
                key=key,
                phase=self._phase or call.phase,
                framework="jax",
                device=self._device,
                implementation=call.implementation,
                scalars=dict(call.scalars),
                shapes=dict(kept.entries),
                nbytes=nbytes,
                load=lambda: _loaded(kept, held),
                cut=dict(kept.cut),
            )
        )

    def _record(
        self,
        call: TracedCall,
        kept: KeptTensors,
        ticket: int,
        layer: int,
        shard: int,
        turns: tuple[int, ...],
        arrays: Mapping[str, Any],
    ) -> None:
        with self._lock:
            ticket = self._this_run if ticket == THIS_RUN else ticket
            recording, step = self._recording, self._step_of(ticket)
            if recording is None or step is None:
                self.late += 1
                return
            site, place = _shard_site(call.site, shard), (ticket, call.number, *turns)
            if not call.countable and place in self._numbers.get((step, layer, site), {}):
                recording.lost(UNCOUNTED)
                return
            number = self._number(step, layer, site, place)
        if not recording.wants(step=step, layer=layer, site=site):
            return
        if SUMMARY in arrays:
            kept = kept.with_rows(int(np.asarray(arrays[SUMMARY])[0]))
        self.put(
            recording,
            recording.key(step=step, layer=layer, site=site, call=number),
            call,
            kept,
            nbytes=sum(int(x.size) * x.dtype.itemsize for x in arrays.values()),
            arrays=lambda: {name: _held(x) for name, x in arrays.items()},
        )

    def _lose(self, what: str, error: Exception) -> None:
        """Count a call that never became a record."""
        recording = self._recording
        if recording is not None:
            recording.lost(f"{what}: {error!r:.200}")

    def _new_ticket(self, step: int, shard: int) -> int:
        """Ticket of a run; its step is the program's own, the user's, or found by `_step_of`."""
        if step == NO_STEP and self.step is not None:
            step = self.step
        self._ticket += 1
        self._steps[self._ticket] = (step, shard)
        if len(self._steps) > _MOST_REMEMBERED:
            self._steps.popitem(last=False)
        return self._ticket

    def _mark_wanted(
        self,
        recording: Recording,
        layers: Mapping[str, range],
        ticket: int,
        shard: int,
        wanted: np.ndarray,
    ) -> None:
        """Mark the layers that are to be handed over, and count those no longer taken."""
        step = self._step_of(ticket)
        assert step is not None
        for name, numbers in layers.items():
            site = _shard_site(name, shard)
            for layer in numbers:
                if not recording.wants(step=step, layer=layer, site=site):
                    continue
                number = len(self._numbers.get((step, layer, site), ()))
                key = recording.key(step=step, layer=layer, site=site, call=number)
                if not recording.turned_away(key, 0):
                    wanted[min(layer, MOST_LAYERS - 1)] = True

    def _step_of(self, ticket: int) -> int | None:
        """Step of a run; one more than the one before where nobody said."""
        if ticket == NO_TICKET:
            return self.step
        if ticket not in self._steps:
            return None
        step, shard = self._steps[ticket]
        if step == NO_STEP:
            step = self._next_steps.get(shard, 0)
            self._steps[ticket] = (step, shard)
        self._next_steps[shard] = max(step + 1, self._next_steps.get(shard, 0))
        return step

    def _number(self, step: int, layer: int, site: str, place: tuple) -> int:
        """Number of a call among those of its site in a step; one place has one number."""
        numbers = self._numbers.setdefault((step, layer, site), {})
        if len(self._numbers) > _MOST_REMEMBERED:
            self._numbers.popitem(last=False)
        return numbers.setdefault(place, len(numbers))


def _loaded(kept: KeptTensors, arrays: Mapping[str, Any]) -> LoadedTensors:
    """Arrays as tensors of a store, or the statistics that are in them."""
    if SUMMARY not in arrays:
        return LoadedTensors(tensors={name: tensor_of(np.asarray(x)) for name, x in arrays.items()})
    vector = np.asarray(arrays[SUMMARY])[1:]
    return LoadedTensors(stats=statistics.unpack(kept.stored, vector) if vector.size else {})


def _shard_site(site: str, shard: int) -> str:
    """Each shard of a shard_map makes a site its own."""
    return site if shard < 0 else f"{site}@shard{shard}"


def _held(x: Any) -> Any:
    """An array that stays as it is. JAX's own do; NumPy's may be a window on the runtime's memory,
    which is used again once the callback returns."""
    return np.array(x, copy=True, order="C") if isinstance(x, np.ndarray) else x
