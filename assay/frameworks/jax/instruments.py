"""JAX: the plan and the text of the compiled program, and the residuals of its gradient."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from assay.frameworks.jax import hlo
from assay.frameworks.jax import memory as xla
from assay.instruments.operation import Operation
from assay.instruments.reading import Peak, Reading


def peak(
    call: Callable[..., Any],
    inputs: Sequence[jax.Array],
    grad_out: jax.Array | None = None,
    *,
    device: str,
) -> Peak:
    """Of `call(*inputs)`, or with `grad_out` of output and gradients in one program."""
    return xla.peak(call, inputs, grad_out)


def saved_bytes(
    call: Callable[..., Any], inputs: Sequence[jax.Array], options: Mapping[str, Any]
) -> Reading:
    """Kept from the forward pass for the backward; masks and lengths are constants to it."""
    return xla.saved_bytes(call, inputs)


def operations(call: Callable[..., Any], inputs: Sequence[jax.Array]) -> list[Operation]:
    """Operations of the compiled program; their durations are unknown."""
    text = jax.jit(lambda *arrays: call(*arrays)).lower(*inputs).compile().as_text()
    return hlo.operations(text or "")


def input_copies(call: Callable[..., Any], inputs: Sequence[jax.Array]) -> Reading:
    """Not known: XLA decides in the compiled program."""
    return Reading(value=None, reason="XLA decides what is copied, within its fusions too")
