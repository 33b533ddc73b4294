"""JAX: the host clock, stopped when the result is ready; its device streams cannot be reached."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from time import perf_counter, perf_counter_ns
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from assay.frameworks.jax.arrays import place
from assay.instruments import caches

_ready = jax.block_until_ready  # bound before any code of a user's is loaded


class _WaitingClock:
    source = "host clock until block_until_ready, launches included"
    launch_ms = None  # part of the time

    def time(self, work: Callable[[], Any]) -> tuple[float, Any]:
        start = perf_counter_ns()
        result = _ready(work())
        return (perf_counter_ns() - start) / 1e6, result


def clock(device: str) -> _WaitingClock:
    """Return a clock of `device`: its `time(work)` returns milliseconds and the result."""
    return _WaitingClock()


@cache
def flusher(device: str) -> Callable[[], str]:
    """A function that waits for the device, empties its caches and says what it did."""
    size, state = (
        caches.to_write() if device == "cpu" else (256 << 20, "cold: 256 MiB written before")
    )
    buffer = place(np.zeros(size, np.int8), "int8", device)

    def flush() -> str:
        nonlocal buffer
        buffer = _ready(_rewritten(buffer))
        return state

    return flush


@partial(jax.jit, donate_argnums=0)
def _rewritten(buffer: jax.Array) -> jax.Array:
    return buffer + jnp.int8(1)


@contextmanager
def annotated(name: str, device: str) -> Iterator[None]:
    """A named range in a profiler's timeline."""
    with jax.profiler.TraceAnnotation(name):
        yield


def delay(device: str, wait_ms: float) -> Callable[[], None]:
    """Something to do that takes that long, before the call is handed to the device."""

    def spin() -> None:
        until = perf_counter() + wait_ms / 1e3
        while perf_counter() < until:
            pass

    return spin
