"""Stand-ins for JAX's loops and checkpoint while a capture is on.

A loop's body is given the index of its turn, which is the layer in a scan over layers; what a body
or a checkpoint took is handed out beside its results. Threads without a capture get the originals.
"""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import jax
import jax.numpy as jnp

from assay.captures.jax.frame import Group, Parts, here

_lock = threading.Lock()
_users = 0
_originals: dict[tuple[Any, str], Any] = {}


@contextmanager
def stand_ins(extra: dict[tuple[Any, str], Callable[[Any], Any]]) -> Iterator[None]:
    """Put the stand-ins into place; `extra` makes more of them, each from its original."""
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
            for (home, name), make in (makers | extra).items():
                _originals[home, name] = getattr(home, name)
                setattr(home, name, make(_originals[home, name]))
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                for (home, name), original in _originals.items():
                    setattr(home, name, original)
                _originals.clear()


def _scan(original: Callable) -> Callable:
    @functools.wraps(original)
    def scan(
        f: Callable, init: Any, xs: Any = None, length: int | None = None, *rest: Any, **given: Any
    ) -> Any:
        turns = _turns(xs, length)
        if not here.captures or turns is None:
            return original(f, init, xs, length, *rest, **given)
        parts = Parts(Group(turns))

        def body(carry: Any, pair: Any) -> Any:
            index, x = pair
            with parts.traced(index) as handed:
                carry, y = f(carry, x)
            return carry, (y, handed)

        indices = jnp.arange(turns, dtype=jnp.int32)
        carry, (ys, handed) = original(body, init, (indices, xs), turns, *rest, **given)
        parts.take(handed)
        return carry, ys

    return scan


def _map(original: Callable) -> Callable:
    @functools.wraps(original)
    def mapped(f: Callable, xs: Any, **given: Any) -> Any:
        if not here.captures or given.get("batch_size") is not None:
            return original(f, xs, **given)
        return jax.lax.scan(lambda carry, x: (carry, f(x)), None, xs)[1]

    return mapped


def _turns(xs: Any, length: int | None) -> int | None:
    """How often a scan runs its body; None where its arguments do not say, which it refuses."""
    sizes = {jnp.shape(x)[0] for x in jax.tree.leaves(xs) if jnp.ndim(x)}
    if length is not None:
        sizes.add(length)
    return sizes.pop() if len(sizes) == 1 else None


def _while_loop(original: Callable) -> Callable:
    @functools.wraps(original)
    def while_loop(cond_fun: Callable, body_fun: Callable, init_val: Any) -> Any:
        if not here.captures:
            return original(cond_fun, body_fun, init_val)
        parts = Parts(Group(None, hands_out=False))

        def body(pair: Any) -> Any:
            index, value = pair
            with parts.traced(index):
                value = body_fun(value)
            return index + 1, value

        return original(lambda pair: cond_fun(pair[1]), body, (jnp.int32(0), init_val))[1]

    return while_loop


def _fori_loop(original: Callable) -> Callable:
    @functools.wraps(original)
    def fori_loop(lower: Any, upper: Any, body_fun: Callable, init_val: Any, **given: Any) -> Any:
        if not here.captures:
            return original(lower, upper, body_fun, init_val, **given)
        known = isinstance(lower, int) and isinstance(upper, int)
        turns = max(0, upper - lower) if known else None
        parts = Parts(Group(turns, hands_out=False))

        def body(index: Any, value: Any) -> Any:
            with parts.traced(jnp.int32(index - lower)):
                return body_fun(index, value)

        return original(lower, upper, body, init_val, **given)

    return fori_loop


def _checkpoint(original: Callable) -> Callable:
    @functools.wraps(original)
    def checkpoint(*args: Any, **given: Any) -> Any:
        plain = original(*args, **given)
        if not args or not callable(args[0]):
            return plain
        fun, *rest = args

        @functools.wraps(fun)
        def called(*args: Any, **kwargs: Any) -> Any:
            if not here.captures:
                return plain(*args, **kwargs)
            with _frames_of_all_captures():
                parts = Parts()

                @functools.wraps(fun)  # new for each call, so that no cache gives back another's
                def once(*args: Any, **kwargs: Any) -> Any:
                    with parts.traced() as handed:
                        result = fun(*args, **kwargs)
                    return result, handed

                result, handed = original(once, *rest, **given)(*args, **kwargs)
                parts.take(handed)
                return result

        return called

    return checkpoint


@contextmanager
def _frames_of_all_captures() -> Iterator[None]:
    """A frame of each capture around a checkpoint: none can be opened inside it."""
    if here.frames:
        yield
        return
    with ExitStack() as frames:
        for capture in here.captures:
            frames.enter_context(capture.frame())
        yield
