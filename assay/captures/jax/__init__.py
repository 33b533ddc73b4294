"""Attention inputs out of any Flax model in JAX while its programs run, its code untouched.

with assay.capturing(model, "captures", every=20) as capture:
    train_step(params, batch)                        # jitted long ago: traced anew, once
    loss, calls = jax.jit(capture.collect(loss_of))(params, batch)   # or as results
    capture.save(calls, step=3)
"""

import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from assay.captures.jax import functions, loops, sites, trace
from assay.captures.jax.callbacks import CallbackSink
from assay.captures.jax.forward_pass import ForwardPass, Sink, active
from assay.captures.jax.interceptor import FlaxInterceptor
from assay.captures.jax.recorder import JaxRecorder
from assay.captures.jax.results import CollectedCalls, ResultSink, unstacked
from assay.captures.manifest import Phase, RunSummary, Scalar
from assay.captures.recording import Recording
from assay.captures.recording.options import CaptureOptions
from assay.captures.store import Store
from assay.errors import BadInput

_tokens = itertools.count(1)
_LONGEST_VALUE = 300  # characters of a field that is written out


class FlaxCapture:
    """One capture of one model. Use it with `with`.

    `model` is the module, or its class; None is any. `phase` replaces what the calls show. `scale`
    is what scores are multiplied with, for attentions written out with einsum, which do not show
    it. `attention` is the class of attention modules, or a function that says of a module whether
    it is one; else all whose class has that in its name.
    """

    def __init__(
        self,
        model: nn.Module | type[nn.Module] | None,
        store: Store,
        options: CaptureOptions,
        *,
        run: str | None = None,
        phase: Phase | None = None,
        scale: float | None = None,
        attention: sites.Choice = None,
    ) -> None:
        self.store = store
        self.options = options
        self.interceptor = FlaxInterceptor(model, sites.attention_test(attention), scale=scale)
        self.token = next(_tokens)
        self._steps: list[jax.Array] = []  # said inside functions, while they are traced
        self._recording = Recording(
            store,
            run=run,
            rank=jax.process_index(),
            options=options,
            model=_identity(model),
            config=_configuration(model),
        )
        self._recorder = JaxRecorder(self._recording, device=_device(), phase=phase)
        self._stack = ExitStack()
        self._saved: dict[tuple[int, int, str], int] = {}

    @property
    def run(self) -> str:
        """Name of this run in the store."""
        return self._recording.run

    def __enter__(self) -> "FlaxCapture":
        trace.require_known_traces()
        with ExitStack() as stack:
            stack.enter_context(self._recording)
            stack.callback(self._recorder.close)
            stack.callback(self._tell_if_nothing)
            stack.callback(jax.effects_barrier)  # the first of these to run
            stack.enter_context(self._intercepting())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        """Wait for all callbacks, then for the writer."""
        self._stack.__exit__(*error)

    def report(self) -> RunSummary:
        """Records captured and dropped; exact after the `with`."""
        return self._recording.report()

    @contextmanager
    def step(self, number: int | jax.Array) -> Iterator[None]:
        """Make what runs inside belong to this step.

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
        before, self._recorder.step = self._recorder.step, int(number)
        try:
            if self.options.wants_step(int(number)):
                yield
            else:
                with self.paused():
                    yield
        finally:
            jax.effects_barrier()
            self._recorder.step = before

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what runs inside: programs compiled without capture run again."""
        captures = active.captures
        active.captures = [capture for capture in captures if capture is not self]
        try:
            with trace.setting(_tokens_of(active.captures)):
                yield
        finally:
            active.captures = captures

    def collect(self, function: Callable) -> Callable:
        """A function that also returns what its attentions were given: `(result, calls)`.

        It can be put into jit, grad with has_aux, and whatever else takes a function of arrays.
        """

        @functools.wraps(function)
        def collecting(*args: Any, **kwargs: Any) -> tuple[Any, CollectedCalls]:
            sink = ResultSink(self.options)
            with self._intercepting(), self.forward_pass(sink):
                result = function(*args, **kwargs)
            collected = sink.collected()
            if not collected.calls:
                raise BadInput(f"no attention was called; {self.interceptor.description()}")
            return result, collected

        return collecting

    def save(self, collected: CollectedCalls, *, step: int) -> None:
        """Put what a collected function returned into the store, as one step."""
        for single in unstacked(collected):
            call, layer, site = single.stacked.call, single.layer, single.stacked.call.site
            if not self._recording.wants(step=step, layer=layer, site=site):
                continue
            number = self._saved.get((step, layer, site), 0)
            self._saved[step, layer, site] = number + 1
            key = self._recording.key(step=step, layer=layer, site=site, call=number)
            self._recorder.put(
                self._recording,
                key,
                call,
                single.stacked.kept,
                nbytes=single.nbytes,
                arrays=single.arrays,
            )

    @contextmanager
    def forward_pass(self, sink: Sink | None = None) -> Iterator[ForwardPass]:
        """One run of the model: while it is traced, or computed at once."""
        forward_pass = ForwardPass(self)
        with trace.kept_apart("collecting" if sink else "calling"):
            step = self._steps[-1] if self._steps else None
            forward_pass.sink = sink or CallbackSink(
                self._recorder, self.options, forward_pass.layers, step
            )
            active.passes.append(forward_pass)
            try:
                yield forward_pass
            finally:
                active.passes.remove(forward_pass)
            forward_pass.sink.end()

    @contextmanager
    def _intercepting(self) -> Iterator[None]:
        """See calls of Flax methods in this thread, and of the functions that they call."""
        if self in active.captures:
            yield
            return
        intercept = functools.partial(self.interceptor.intercept, self)
        with ExitStack() as stack:
            stack.enter_context(loops.patched(functions.replacements(_see_alone)))
            active.captures.append(self)
            stack.callback(active.captures.remove, self)
            stack.enter_context(trace.setting(_tokens_of(active.captures)))
            stack.enter_context(nn.intercept_methods(intercept))
            yield

    def _tell_if_nothing(self) -> None:
        if self._recorder.late:
            self._recording.lost(f"came without a step: {self._recorder.late}")
        if not self._recorder.sites and not self._saved and not self.report().records:
            print(f"assay: nothing captured: {self.interceptor.description()}", file=sys.stderr)


def _tokens_of(captures: Sequence[FlaxCapture]) -> tuple[int, ...] | None:
    """Tokens of the captures that are on: programs of different ones are kept apart."""
    return tuple(capture.token for capture in captures) or None


def _see_alone(core: functions.AttentionCore) -> None:
    """Pass on an attention that no attention module called: the module that did is its site."""
    for each in active.passes:
        each.capture.interceptor.see_alone(each, core)


def _device() -> str:
    platform = jax.default_backend()
    return {"gpu": "cuda"}.get(platform, platform)


def _identity(model: nn.Module | type | None) -> dict[str, Scalar]:
    """Framework and class of a model."""
    if model is None:
        return {"framework": "flax", "class": None}
    kind = model if isinstance(model, type) else type(model)
    return {"framework": "flax", "class": f"{kind.__module__}.{kind.__qualname__}"}


def _configuration(model: nn.Module | type | None) -> dict[str, Scalar]:
    """Fields of a model; what is no plain value is written out."""
    if model is None or isinstance(model, type):
        return {}
    values = {name: getattr(model, name) for name in sites.field_names(model)}
    return {
        name: value if isinstance(value, Scalar) else repr(value)[:_LONGEST_VALUE]
        for name, value in values.items()
    }
