"""JAX: arrays on the CPU backend or a CUDA (or ROCm) device; they cannot be changed or laid out."""

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.array import ArrayImpl

from assay.instruments import progress

jax.monitoring.register_event_duration_secs_listener(progress.has_compiled)


def place(array: np.ndarray, dtype: str, device: str, layout: str = "plain") -> jax.Array:
    """An array with exactly these values on `device`; the only layout is plain."""
    if layout != "plain":
        raise ValueError(f"layout {layout!r} cannot be had in JAX: arrays have no strides")
    # A copy, because the CPU backend may keep the very memory that it is given.
    return jax.device_put(np.array(array, dtype=jnp.dtype(dtype)), _device(device))


def marks(array: np.ndarray, device: str) -> jax.Array:
    """Lengths, positions or a mask, of the dtype they have."""
    return jax.device_put(np.array(array), _device(device))


@cache
def _device(device: str) -> jax.Device:
    # JAX takes most of a GPU's memory when it first meets it; other frameworks share this one.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if device == "cpu":
        return jax.devices("cpu")[0]
    return jax.devices("gpu")[int(device.removeprefix("cuda:"))]


def layouts() -> tuple[str, ...]:
    """The ways other than plain in which arrays can lie in memory: none that a user can choose."""
    return ()


def numpy(array: jax.Array) -> np.ndarray:
    """The array's values as float64."""
    return np.asarray(array).astype(np.float64)


def bits(array: jax.Array) -> bytes:
    """The array's very bytes, in the order of its indices."""
    return np.asarray(array).tobytes()


def taken(array: jax.Array, index: Sequence[np.ndarray]) -> jax.Array:
    """Return the elements at some places, given by an integer array for each of the first axes."""
    return array[tuple(index)]


def all_finite(array: jax.Array) -> bool:
    """True where no element is infinite or NaN; -inf of an LSE that sees nothing is finite."""
    if array.ndim == 3:
        return not bool((jnp.isnan(array) | jnp.isposinf(array)).any())
    return bool(jnp.isfinite(array).all())


def swapped(array: jax.Array, first: int, second: int) -> jax.Array:
    return jnp.swapaxes(array, first, second)


def expanded(array: jax.Array, shape: Sequence[int]) -> jax.Array:
    """The array as if repeated along its axes of size one."""
    return jnp.broadcast_to(array, tuple(shape))


def tiled(array: jax.Array, count: int) -> jax.Array:
    """The array `count` times along its first axis, in memory."""
    return jnp.tile(array, (count, *(1 for _ in array.shape[1:])))


def stretched(array: jax.Array, axis: int, length: int) -> jax.Array:
    """The array repeated along an axis to that length."""
    times = [1] * array.ndim
    times[axis] = -(-length // array.shape[axis])
    return jax.lax.slice_in_dim(jnp.tile(array, times), 0, length, axis=axis)


def device_overhead(device: str) -> int | None:
    """None: JAX does not tell what a device holds beside arrays."""
    return None


def overwrite(array: jax.Array, values: jax.Array) -> jax.Array | None:
    """None: JAX arrays cannot be changed."""
    return None


def is_array(value: object) -> bool:
    """True for JAX's own array. One of another class may have no values yet when a call returns."""
    return type(value) is ArrayImpl


def dtype_name(array: jax.Array) -> str:
    return str(array.dtype)


def gradients(
    call: Callable[..., jax.Array],
    inputs: Sequence[jax.Array],
    grad_out: jax.Array,
    wanted: tuple[bool, bool, bool] = (True, True, True),
) -> tuple[jax.Array, tuple[Any, ...]]:
    """The output of `call(*inputs)` and the gradient of each wanted input, None where none is."""

    def of_wanted(*leaves: jax.Array) -> jax.Array:
        arrays = iter(leaves)
        return call(*(next(arrays) if w else x for x, w in zip(inputs, wanted, strict=True)))

    out, pull_back = jax.vjp(of_wanted, *(x for x, w in zip(inputs, wanted, strict=True) if w))
    if not is_array(out):
        return out, (None, None, None)
    cotangents = iter(pull_back(grad_out))
    return out, tuple(next(cotangents) if needed else None for needed in wanted)


@contextmanager
def poisoned(device: str) -> Iterator[bool]:
    """Yields False: a JAX program never sees memory that it has not written."""
    yield False


def pullback(
    call: Callable[..., jax.Array], inputs: Sequence[jax.Array], state: dict[str, Any]
) -> Callable[[jax.Array], tuple[jax.Array, ...]]:
    """Runs the forward pass; what comes back runs the backward pass. Both are compiled once."""
    function, bound = apart(call)
    if not state:
        state["forward"] = jax.jit(
            lambda bound, *arrays: jax.vjp(partial(function, *bound), *arrays)
        )
        state["backward"] = jax.jit(lambda pull_back, grad_out: pull_back(grad_out))
    _, pull_back = jax.block_until_ready(state["forward"](bound, *inputs))
    return partial(state["backward"], pull_back)


def trained(
    call: Callable[..., jax.Array],
    inputs: Sequence[jax.Array],
    grad_out: jax.Array,
    state: dict[str, Any],
) -> tuple[jax.Array, ...]:
    """The gradients, by a forward and a backward pass that are compiled together."""
    function, bound = apart(call)

    def both(bound: tuple, arrays: tuple, grad_out: jax.Array) -> tuple[jax.Array, ...]:
        return jax.vjp(partial(function, *bound), *arrays)[1](grad_out)

    if not state:
        state["both"] = jax.jit(both)
    return state["both"](bound, tuple(inputs), grad_out)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one program, as `pullback` and `trained` run it. Arrays are given to the
    program, flags and numbers are part of it."""
    if hasattr(function, "lower"):  # of jax.jit
        return function

    @partial(jax.jit, static_argnums=0)
    def program(flags: tuple, inputs: tuple, arrays: dict) -> Any:
        return function(*inputs, **dict(flags), **arrays)

    def call(*inputs: jax.Array, **options: Any) -> Any:
        arrays = {name: value for name, value in options.items() if is_array(value)}
        flags = [pair for pair in options.items() if pair[0] not in arrays]
        return program(tuple(flags), inputs, arrays)

    return call


def apart(call: Callable[..., jax.Array]) -> tuple[Callable[..., jax.Array], tuple]:
    """A function and the arrays that it is bound to: what is closed over, XLA takes for constants
    of the program, however large."""
    bound = isinstance(call, jax.tree_util.Partial)
    return (call.func, call.args) if bound else (call, ())


def times(array: jax.Array, factor: float | np.ndarray) -> jax.Array:
    """The array multiplied by a number, or by one for each place of its last axis."""
    return array * jnp.asarray(factor, array.dtype)


def checksum(array: jax.Array) -> int:
    """Zero: JAX arrays cannot be changed."""
    return 0


def may_have_compiled() -> bool:
    """True: XLA compiles everything."""
    return True


def compile_quickly() -> None:
    """Have XLA leave out most optimizations from now on: it takes a third of the time."""
    jax.config.update("jax_disable_most_optimizations", True)


def keep_compiled_in(folder: str) -> None:
    """Have XLA keep what it compiles from now on in `folder`, however fast that was."""
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def synchronize(device: str) -> None:
    """Return when all work handed to `device` is done.

    JAX has no such call of its own; a device works in order, so something small is sent after.
    """
    jax.block_until_ready(_last(_something(device)))


@cache
def _something(device: str) -> jax.Array:
    return jax.device_put(np.zeros((), np.float32), _device(device))


@jax.jit
def _last(value: jax.Array) -> jax.Array:
    return value + 1


def empty_cache(device: str) -> None:
    """Let go of arrays that only cycles hold; JAX's allocator itself gives nothing back."""
    gc.collect()


def device_lost(error: BaseException) -> bool:
    """True where a CUDA error left the device unusable, such as an illegal memory access."""
    return isinstance(error, jax.errors.JaxRuntimeError) and "CUDA_ERROR_ILLEGAL" in str(error)
