"""State of JAX at this moment: which traces are open, and whose programs its caches give back.

A function under jit runs as Python once, while it is traced; later calls run the program that came
of it. A setting that is part of the key of JAX's caches makes it trace again where captures change.
"""

import itertools
import threading
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager

import jax
from jax.extend.core import get_opaque_trace_state, take_current_trace

from assay.errors import BadInput, CannotRunHere

LOOPS = ("scan", "while_body", "fori_loop")
_COMPUTING = "EvalTrace"
_DIFFERENTIATING = ("JVPTrace", "LinearizeTrace")
# flax.linen.scan runs its body once before it scans it: Flax 0.12.8 and before, and those after.
_REHEARSING = ("JaxprTrace", "flax scan")

_lock = threading.Lock()
_fresh = itertools.count()
_settings: list = []


def traces() -> tuple[str, ...]:
    """Purposes of the open traces, innermost first: jit, scan, LinearizeTrace and so on."""
    with take_current_trace() as trace:
        pass
    purposes = []
    while trace is not None:
        debug_info = getattr(getattr(trace, "frame", None), "debug_info", None)
        purposes.append(getattr(debug_info, "traced_for", None) or type(trace).__name__)
        trace = getattr(trace, "parent_trace", None)
    return tuple(purposes)


def rehearsing() -> bool:
    """True where what runs now is traced only to be thrown away."""
    return any(name in _REHEARSING for name in traces())


def differentiating() -> bool:
    """True where what runs now is being differentiated."""
    return any(name in _DIFFERENTIATING for name in traces())


def refusing_host_values() -> str | None:
    """The part of a program that may not ask the host for a value; None where it may."""
    now = traces()
    if "checkpoint / remat" in now:
        return "a jax.checkpoint that was made before the capture began"
    if "cond" in now and "BatchTrace" in now[now.index("cond") :]:
        return "a jax.lax.cond under vmap"
    return None


def state() -> Hashable:
    """State of the traces: equal in two places where values of one may be used in the other."""
    return get_opaque_trace_state()


def require_known_traces() -> None:
    """Refuse a JAX that does not say what it traces."""
    if tracing():
        raise BadInput(
            "a capture was begun in a function that is being traced; begin it outside of jit, and "
            "call the function in it"
        )
    purposes: list[tuple[str, ...]] = []
    jax.eval_shape(lambda: purposes.append(traces()) or 0)
    if len(purposes[0]) < 2:
        raise CannotRunHere(
            f"JAX {jax.__version__} does not say what it traces, which capture needs to tell the "
            "layers of a scan apart; use JAX 0.10 or 0.11"
        )


def setting(value: Hashable) -> AbstractContextManager[None]:
    """Keep programs traced inside apart from those traced under another value, or none."""
    with _lock:
        if not _settings:
            _settings.append(jax.make_user_context(None))
    return _settings[0](value)


@contextmanager
def unshared() -> Iterator[None]:
    """Trace what runs inside without caches: it holds values of this trace alone."""
    with setting((_value(), next(_fresh))):
        yield


def kept_apart(purpose: str) -> AbstractContextManager[None]:
    """Do as `unshared`; where nothing is traced, only keep programs apart by `purpose`, so that
    single operations are not compiled again for every call."""
    return unshared() if tracing() else setting((_value(), purpose))


def tracing() -> bool:
    """True where what runs now becomes a program, rather than being computed at once."""
    return traces()[0] != _COMPUTING


def _value() -> Hashable:
    return _settings[0].value if _settings else None
