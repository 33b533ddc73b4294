"""Captures attention calls of Flax models in JAX, while they run and without a change to them.

with assay.capturing(model, "captures", every=20) as capture:
    train_step(params, batch)                        # jitted long ago: traced anew, once
    loss, taken = jax.jit(capture.collect(loss_of))(params, batch)   # or as results
    capture.save(taken, step=3)
"""

import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from assay.captures.jax import cores, identity, loops, sites, trace
from assay.captures.jax.callbacks import Calling
from assay.captures.jax.collected import Collected, Collecting, calls
from assay.captures.jax.frame import Frame, Sink, here
from assay.captures.jax.host import Post, loaded, taken
from assay.captures.jax.observer import Observer
from assay.captures.manifest import Phase
from assay.captures.recording import Recording
from assay.captures.recording.counts import RecordingReport
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store
from assay.errors import BadInput

_tokens = itertools.count(1)


def capturing_flax(
    model: nn.Module | type[nn.Module] | None,
    to: Store | Path | str = "captures",
    options: CaptureOptions | None = None,
    *,
    run: str | None = None,
    phase: Phase | None = None,
    scale: float | None = None,
    attention: sites.Chooser | type | Sequence[type] | None = None,
    **choices: Any,
) -> "Capture":
    """Capture what the attentions of a Flax model are given, while the `with` lasts.

    model: the module, or its class; None is any. choices: fields of CaptureOptions, on top of
    `options`.
    phase: in place of what the calls tell. scale: what scores are multiplied with, for attentions
    written out with einsum, which do not tell. attention: the class of attention modules, or a
    function that says of a module whether it is one; else all whose class has that in its name.
    """
    observer = Observer(model, sites.chooser(attention), scale=scale)
    store = to if isinstance(to, Store) else Store.create(Path(to))
    chosen = _chosen(options or CaptureOptions(), choices)
    return Capture(observer, store, chosen, run=run, phase=phase)


class Capture:
    """One run that is captured; made by `capturing_flax`."""

    def __init__(
        self,
        observer: Observer,
        store: Store,
        options: CaptureOptions,
        *,
        run: str | None,
        phase: Phase | None,
    ) -> None:
        self.options = options
        self._observer = observer
        self._phase = phase
        self._token = next(_tokens)
        self._device = _device()
        self._steps: list[jax.Array] = []  # given inside functions, while they are traced
        self._recording = Recording(
            store,
            run=run,
            rank=jax.process_index(),
            options=options,
            model=identity.model(observer.model),
            config=identity.config(observer.model),
        )
        self._post = Post(self._recording, device=self._device, phase=phase)
        self._stack = ExitStack()
        self._saved: dict[tuple[int, int, str], int] = {}

    @property
    def run(self) -> str:
        return self._recording.run

    @property
    def store(self) -> Store:
        return self._recording.store

    def __enter__(self) -> "Capture":
        trace.require_known_traces()
        with ExitStack() as stack:
            stack.enter_context(self._recording)
            stack.callback(self._post.close)
            stack.callback(self._tell_if_nothing)
            stack.callback(jax.effects_barrier)  # the first of these to run
            stack.enter_context(self._watching())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def close(self) -> None:
        """Wait for all callbacks, then for the writer."""
        self._stack.close()

    def report(self) -> RecordingReport:
        """How it stands: exact once closed."""
        return self._recording.report()

    @contextmanager
    def step(self, number: int | jax.Array) -> Iterator[None]:
        """What runs inside belongs to this step.

        Outside of traced functions it waits at its end for all callbacks, and where no call of the
        step is wanted the plain program runs. Inside one, the number may be traced.
        """
        if isinstance(number, jax.core.Tracer) or trace.tracing():
            self._steps.append(jnp.asarray(number, dtype=jnp.int32))
            try:
                yield
            finally:
                self._steps.pop()
            return
        jax.effects_barrier()  # what was begun before is of another step
        before, self._post.step = self._post.step, int(number)
        try:
            if self._wants(int(number)):
                yield
            else:
                with self.paused():
                    yield
        finally:
            jax.effects_barrier()
            self._post.step = before

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What runs inside is not captured: programs compiled without capture run again."""
        captures, here.captures = here.captures, [c for c in here.captures if c is not self]
        try:
            with trace.setting(_tokens_of(here.captures)):
                yield
        finally:
            here.captures = captures

    def collect(self, function: Callable) -> Callable:
        """A function that also returns what its attentions were given: `(result, taken)`.

        It can be put into jit, grad with has_aux, and whatever else takes a function of arrays.
        """

        @functools.wraps(function)
        def collecting(*args: Any, **kwargs: Any) -> tuple[Any, Collected]:
            sink = Collecting(self.options)
            with self._watching(), self.frame(sink):
                result = function(*args, **kwargs)
            found = sink.collected()
            if not found.told:
                raise BadInput(f"no attention was called; {self._observer.looked_for()}")
            return result, found

        return collecting

    def save(self, taken_calls: Collected, *, step: int) -> None:
        """Put what a collected function returned into the store, as one step."""
        for one in calls(taken_calls):
            site, kept = one.told.call.site, one.told.kept
            if not self._recording.wants(step=step, layer=one.layer, site=site):
                continue
            number = self._saved.get((step, one.layer, site), 0)
            self._saved[step, one.layer, site] = number + 1
            key = self._recording.key(step=step, layer=one.layer, site=site, call=number)
            if self._recording.turned_away(key, one.nbytes):
                continue
            self._recording.put(
                taken(
                    key,
                    one.told.call,
                    kept,
                    device=self._device,
                    phase=self._phase,
                    nbytes=one.nbytes,
                    load=functools.partial(loaded, kept, one.taken()),
                )
            )

    @contextmanager
    def frame(self, sink: Sink | None = None) -> Iterator[Frame]:
        """One run of the model: while it is traced, or computed at once."""
        frame = Frame(self)
        with trace.kept_apart("collecting" if sink else "calling"):
            step = self._steps[-1] if self._steps else None
            frame.sink = sink or Calling(self._post, self.options, frame.layers, step)
            here.frames.append(frame)
            try:
                yield frame
            finally:
                here.frames.remove(frame)
            frame.sink.end()

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """See calls of Flax methods in this thread, and of what they are made of."""
        if self in here.captures:
            yield
            return
        with ExitStack() as stack:
            stack.enter_context(loops.stand_ins(cores.stand_ins(_seen_alone)))
            here.captures.append(self)
            stack.callback(here.captures.remove, self)
            stack.enter_context(trace.setting(_tokens_of(here.captures)))
            stack.enter_context(nn.intercept_methods(self._intercept))
            yield

    def _intercept(self, call: Callable, args: Any, kwargs: Any, context: Any) -> Any:
        return self._observer.intercept(self, call, args, kwargs, context)

    def _wants(self, step: int) -> bool:
        """Whether a step is wanted, as far as that is known before it runs."""
        options = self.options
        return (
            step % options.every == 0
            and (options.first is None or step < options.first)
            and (options.steps is None or step in options.steps)
        )

    def _tell_if_nothing(self) -> None:
        if self._post.late:
            self._recording.lost(f"came without a step: {self._post.late}")
        if not self._post.sites and not self._saved and not self.report().records:
            print(f"assay: nothing captured: {self._observer.looked_for()}", file=sys.stderr)


def _chosen(options: CaptureOptions, choices: dict[str, Any]) -> CaptureOptions:
    known = [field.name for field in fields(CaptureOptions)]
    if unknown := set(choices) - set(known):
        raise BadInput(
            f"there is no choice {', '.join(sorted(unknown))}; there are {', '.join(known)}, and "
            "of a Flax model phase, scale and attention"
        )
    return replace(options, **choices)


def _tokens_of(captures: Sequence[Capture]) -> tuple[int, ...] | None:
    """Names the captures that are on: programs of different ones are kept apart."""
    return tuple(capture._token for capture in captures) or None


def _seen_alone(core: cores.Core) -> None:
    """An attention that no attention module called: the module that did is its site."""
    for frame in here.frames:
        frame.owner._observer.alone(frame, core)


def _device() -> str:
    platform = jax.default_backend()
    return {"gpu": "cuda"}.get(platform, platform)
