"""Replacements of JAX's loops and checkpoint while a capture is on.

A loop's body gets the index of its turn, which is the layer in a scan over layers; calls in a body
or a checkpoint are handed out beside its results. Threads without a capture run the originals.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import jax
import jax.numpy as jnp

from assay.captures.jax import trace
from assay.captures.jax.forward_pass import Loop, LoopTurn, active

_lock = threading.Lock()
_users = 0
_originals: dict[tuple[Any, str], Any] = {}


@contextmanager
def patched(more: dict[tuple[Any, str], Callable[[Any], Any]]) -> Iterator[None]:
    """Replace the loops, and `more`: (owner, name) -> maker of a replacement from its original."""
    global _users
    makers = {
        (jax.lax, "scan"): _scan,
        (jax.lax, "map"): _map,
        (jax.lax, "while_loop"): _while_loop,
        (jax.lax, "fori_loop"): _fori_loop,
        (jax, "checkpoint"): _checkpoint,
        (jax, "remat"): _checkpoint,
    }
    with _lock:
        _users += 1
        if _users == 1:
            for (owner, name), make in (makers | more).items():
                _originals[owner, name] = getattr(owner, name)
                setattr(owner, name, make(_originals[owner, name]))
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                for (owner, name), original in _originals.items():
                    setattr(owner, name, original)
                _originals.clear()


class TracedBody:
    """The body of one loop or checkpoint, which may be traced more than once."""

    def __init__(self, loop: Loop | None = None) -> None:
        self._loop = loop
        self._passes = list(active.passes)
        self._counts = [dict(each.counts) for each in self._passes]

    @contextmanager
    def traced(self, index: jax.Array | None = None) -> Iterator[list[Any]]:
        """Trace the body once. The list is filled at the end with what the body must return beside
        its own results; `take` gets that on the other side."""
        handed_out: list[Any] = []
        before = []
        for each, counts in zip(self._passes, self._counts, strict=True):
            each.counts = dict(counts)
            before.append(each.sink.enter(self._loop))
            if self._loop:
                assert index is not None
                each.turns.append(LoopTurn(self._loop, index))
        if index is not None:
            active.loop_indices.append(index)
        try:
            with trace.unshared():
                yield handed_out
        finally:
            if index is not None:
                active.loop_indices.pop()
            for each, outer in zip(self._passes, before, strict=True):
                if self._loop:
                    each.turns.pop()
                handed_out.append(each.sink.leave(outer))

    def take(self, handed_out: Sequence[Any]) -> None:
        """Pass on what the body handed out."""
        for each, values in zip(self._passes, handed_out, strict=True):
            each.sink.give(values)


def _scan(original: Callable) -> Callable:
    @functools.wraps(original)
    def scan(
        f: Callable, init: Any, xs: Any = None, length: int | None = None, *rest: Any, **named: Any
    ) -> Any:
        turns = _turns(xs, length)
        if not active.captures or turns is None:
            return original(f, init, xs, length, *rest, **named)
        traced_body = TracedBody(Loop(turns))

        def body(carry: Any, pair: Any) -> Any:
            index, x = pair
            with traced_body.traced(index) as handed_out:
                carry, y = f(carry, x)
            return carry, (y, handed_out)

        indices = jnp.arange(turns, dtype=jnp.int32)
        carry, (ys, handed_out) = original(body, init, (indices, xs), turns, *rest, **named)
        traced_body.take(handed_out)
        return carry, ys

    return scan


def _map(original: Callable) -> Callable:
    @functools.wraps(original)
    def mapped(f: Callable, xs: Any, **options: Any) -> Any:
        if not active.captures or options.get("batch_size") is not None:
            return original(f, xs, **options)
        return jax.lax.scan(lambda carry, x: (carry, f(x)), None, xs)[1]

    return mapped


def _turns(xs: Any, length: int | None) -> int | None:
    """Turns of a scan; None where its arguments disagree, which it refuses itself."""
    sizes = {jnp.shape(x)[0] for x in jax.tree.leaves(xs) if jnp.ndim(x)}
    if length is not None:
        sizes.add(length)
    return sizes.pop() if len(sizes) == 1 else None


def _while_loop(original: Callable) -> Callable:
    @functools.wraps(original)
    def while_loop(cond_fun: Callable, body_fun: Callable, init_val: Any) -> Any:
        if not active.captures:
            return original(cond_fun, body_fun, init_val)
        traced_body = TracedBody(Loop(None, hands_out=False))

        def body(pair: Any) -> Any:
            index, value = pair
            with traced_body.traced(index):
                value = body_fun(value)
            return index + 1, value

        return original(lambda pair: cond_fun(pair[1]), body, (jnp.int32(0), init_val))[1]

    return while_loop


def _fori_loop(original: Callable) -> Callable:
    @functools.wraps(original)
    def fori_loop(lower: Any, upper: Any, body_fun: Callable, init_val: Any, **options: Any) -> Any:
        if not active.captures:
            return original(lower, upper, body_fun, init_val, **options)
        known = isinstance(lower, int) and isinstance(upper, int)
        turns = max(0, upper - lower) if known else None
        traced_body = TracedBody(Loop(turns, hands_out=False))

        def body(index: Any, value: Any) -> Any:
            with traced_body.traced(jnp.int32(index - lower)):
                return body_fun(index, value)

        return original(lower, upper, body, init_val, **options)

    return fori_loop


def _checkpoint(original: Callable) -> Callable:
    @functools.wraps(original)
    def checkpoint(*args: Any, **options: Any) -> Any:
        plain = original(*args, **options)
        if not args or not callable(args[0]):
            return plain
        fun, *rest = args

        @functools.wraps(fun)
        def checkpointed(*args: Any, **kwargs: Any) -> Any:
            if not active.captures:
                return plain(*args, **kwargs)
            with _passes_of_all_captures():
                traced_body = TracedBody()

                @functools.wraps(fun)  # new for each call, so that no cache returns another's
                def body(*args: Any, **kwargs: Any) -> Any:
                    with traced_body.traced() as handed_out:
                        result = fun(*args, **kwargs)
                    return result, handed_out

                result, handed_out = original(body, *rest, **options)(*args, **kwargs)
                traced_body.take(handed_out)
                return result

        return checkpointed

    return checkpoint


@contextmanager
def _passes_of_all_captures() -> Iterator[None]:
    """A forward pass of each capture around a checkpoint: none can begin inside it."""
    if active.passes:
        yield
        return
    with ExitStack() as passes:
        for capture in active.captures:
            passes.enter_context(capture.forward_pass())
        yield
