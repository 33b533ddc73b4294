"""Memory of a JAX call, from the compiled program and from what its gradient keeps.

XLA plans all buffers when it compiles, so the plan is the peak: temporaries and outputs, less what
outputs share with inputs. The plan's own field for a peak does not cover the CPU.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax

from assay.frameworks.jax.arrays import apart
from assay.instruments.reading import Peak, Reading

SOURCE = "jit(...).lower(...).compile().memory_analysis(): temp + output - alias"
SAVED_SOURCE = "jaxpr of jax.vjp: residuals that are not inputs, each once"


def peak(
    call: Callable[..., Any],
    inputs: Sequence[jax.Array],
    grad_out: jax.Array | None = None,
    *,
    device: str,
) -> Peak:
    """Peak of `call(*inputs)`, or with `grad_out` of output and gradients in one program."""
    function, bound = apart(call)

    def forward(bound: tuple, *arrays: jax.Array) -> Any:
        return function(*bound, *arrays)

    def both(bound: tuple, grad: jax.Array, *arrays: jax.Array) -> Any:
        out, pull_back = jax.vjp(partial(function, *bound), *arrays)
        return out, pull_back(grad)

    if grad_out is None:
        lowered = jax.jit(forward).lower(bound, *inputs)
    else:
        lowered = jax.jit(both).lower(bound, grad_out, *inputs)
    planned = lowered.compile().memory_analysis()
    if planned is None:
        return Peak(value=None, reason="this backend of XLA gives no memory_analysis()")
    value = planned.temp_size_in_bytes + planned.output_size_in_bytes - planned.alias_size_in_bytes
    return Peak(value=value, source=SOURCE)


def saved_bytes(
    call: Callable[..., Any], inputs: Sequence[jax.Array], options: Mapping[str, Any]
) -> Reading:
    """Bytes of the residuals of `call(*inputs)`, which the function that jax.vjp returns holds;
    masks and lengths are constants to it."""
    traced = jax.make_jaxpr(lambda *arrays: jax.vjp(call, *arrays)[1])(*inputs).jaxpr
    theirs = {id(variable) for variable in (*traced.invars, *traced.constvars)}
    kept = {
        id(variable): variable.aval.size * variable.aval.dtype.itemsize
        for variable in traced.outvars
        if id(variable) not in theirs and not hasattr(variable, "val")  # a literal is no array
    }
    return Reading(value=sum(kept.values()), source=SAVED_SOURCE)
