"""The host's side of a capture in JAX: numbers the model's runs, turns what arrives into records.

Called from threads of the runtime, while programs run. Nothing here calls JAX, nothing waits for
the disk, and no error gets back into the program: what goes wrong is counted as a loss.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from assay.captures.jax import statistics as jax_statistics
from assay.captures.jax.call import GROWING, SUMMARY, AttentionCall, Kept
from assay.captures.jax.collected import Collected, Told, calls
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


class Post:
    """Where programs send their calls. It outlives the capture, as compiled programs do."""

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
        """A run of a model begins: its ticket, and which of its layers are wanted.

        Where none are known the run has none, or tells them otherwise: it becomes a step when its
        first call arrives.
        """
        wanted = np.zeros(MOST_LAYERS, dtype=bool)
        ticket = NO_TICKET
        try:
            with self._lock:
                if self._recording:
                    ticket = self._new_ticket(int(step), int(shard))
                    if layers:
                        self._ask(layers, ticket, int(shard), wanted)
                    else:
                        wanted[:] = True
        except Exception as error:
            self.lose("the beginning of a step failed", error)
        return np.int32(ticket), wanted

    def begin_here(self, step: int) -> None:
        """A run of a model begins that is not compiled, in the thread of the caller."""
        with self._lock:
            self._this_run = self._new_ticket(step, -1)

    def record(self, call: AttentionCall, kept: Kept, key: Any, arrays: Mapping[str, Any]) -> None:
        """One call arrives. The key is its ticket, layer, shard, and the turns of other loops."""
        try:
            ticket, layer, shard, *turns = (int(n) for n in np.asarray(key))
            self._arrived(call, kept, ticket, layer, shard, tuple(turns), arrays)
        except Exception as error:
            self.lose("the callback failed", error)

    def gathered(
        self, told: tuple[Told, ...], key: Any, arrays: tuple[Mapping[str, Any], ...]
    ) -> None:
        """All calls of a run arrive together. The key is their ticket and shard."""
        try:
            ticket, shard = (int(n) for n in np.asarray(key))
            whole = tuple({name: np.asarray(one) for name, one in each.items()} for each in arrays)
            for one in calls(Collected(told, whole)):
                call, kept, found = one.told.call, one.told.kept, one.taken()
                self._arrived(call, kept, ticket, one.layer, shard, one.turns, found)
        except Exception as error:
            self.lose("the callback failed", error)

    def _arrived(
        self,
        call: AttentionCall,
        kept: Kept,
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
            site, inner = _site(call.site, shard), (ticket, call.number, *turns)
            if not call.countable and inner in self._numbers.get((step, layer, site), {}):
                recording.lost(UNCOUNTED)
                return
            number = self._number(step, layer, site, inner)
        if recording.wants(step=step, layer=layer, site=site):
            key = recording.key(step=step, layer=layer, site=site, call=number)
            self._put(recording, key, call, kept, arrays)

    def lose(self, what: str, error: Exception) -> None:
        """Count a call that never became a record."""
        recording = self._recording
        if recording is not None:
            recording.lost(f"{what}: {error!r:.200}")

    def _new_ticket(self, step: int, shard: int) -> int:
        """The step is the program's own, what the user says, or found out by `_step_of`."""
        if step == NO_STEP and self.step is not None:
            step = self.step
        self._ticket += 1
        self._steps[self._ticket] = (step, shard)
        if len(self._steps) > _MOST_REMEMBERED:
            self._steps.popitem(last=False)
        return self._ticket

    def _ask(
        self, layers: Mapping[str, range], ticket: int, shard: int, wanted: np.ndarray
    ) -> None:
        """Mark the layers that are to be handed over, and count those no longer taken."""
        assert self._recording
        step = self._step_of(ticket)
        assert step is not None
        for site, numbers in layers.items():
            for layer in numbers:
                if not self._recording.wants(step=step, layer=layer, site=_site(site, shard)):
                    continue
                name = _site(site, shard)
                number = len(self._numbers.get((step, layer, name), ()))
                key = self._recording.key(step=step, layer=layer, site=name, call=number)
                if not self._recording.turned_away(key, 0):
                    wanted[min(layer, MOST_LAYERS - 1)] = True

    def _step_of(self, ticket: int) -> int | None:
        """The step of a run; one more than the one before where nobody said."""
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

    def _number(self, step: int, layer: int, site: str, inner: tuple) -> int:
        """Which call of a site in a step this is; the same call has the same number again."""
        numbers = self._numbers.setdefault((step, layer, site), {})
        if len(self._numbers) > _MOST_REMEMBERED:
            self._numbers.popitem(last=False)
        return numbers.setdefault(inner, len(numbers))

    def _put(
        self,
        recording: Recording,
        key: Key,
        call: AttentionCall,
        kept: Kept,
        arrays: Mapping[str, Any],
    ) -> None:
        nbytes = sum(_nbytes(one) for one in arrays.values())
        if recording.turned_away(key, nbytes):
            return
        held = {name: _held(one) for name, one in arrays.items()}
        if SUMMARY in held:
            kept = kept.with_rows(int(held[SUMMARY][0]))
        recording.put(
            taken(
                key,
                call,
                kept,
                device=self._device,
                phase=self._phase,
                nbytes=nbytes,
                load=lambda: loaded(kept, held),
            )
        )


def taken(
    key: Key,
    call: AttentionCall,
    kept: Kept,
    *,
    device: str,
    phase: Phase | None,
    nbytes: int,
    load: Callable[[], LoadedTensors],
) -> CapturedCall:
    """A call as the writer takes it."""
    return CapturedCall(
        key=key,
        phase=phase or call.phase,
        framework="jax",
        device=device,
        implementation=call.implementation,
        scalars=dict(call.scalars),
        shapes=dict(kept.entries),
        nbytes=nbytes,
        load=load,
        axes=GROWING,
        cut=dict(kept.cut),
    )


def loaded(kept: Kept, arrays: Mapping[str, Any]) -> LoadedTensors:
    """Arrays of the host as tensors, or the statistics that are in them."""
    if SUMMARY not in arrays:
        return LoadedTensors(
            tensors={name: tensor_of(np.asarray(one)) for name, one in arrays.items()}
        )
    statistics = np.asarray(arrays[SUMMARY])[1:]
    return LoadedTensors(
        stats=jax_statistics.unpacked(kept.stored, statistics) if statistics.size else {}
    )


def _site(site: str, shard: int) -> str:
    """The part of a site that one shard of a shard_map ran is a site of its own."""
    return site if shard < 0 else f"{site}@shard{shard}"


def _nbytes(one: Any) -> int:
    return int(one.size) * one.dtype.itemsize


def _held(one: Any) -> Any:
    """An array that stays as it is. JAX's own do; NumPy's may be a window on the runtime's memory,
    which is used again once the callback returns."""
    return np.array(one, copy=True, order="C") if isinstance(one, np.ndarray) else one
