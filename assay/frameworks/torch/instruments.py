"""PyTorch: its CUDA allocator, saved-tensor hooks, its profiler and its dispatcher."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from assay.frameworks.torch import allocator, copies, operators, saved
from assay.frameworks.torch.arrays import gradients
from assay.instruments.operation import Operation
from assay.instruments.reading import Peak, Reading


def peak(
    call: Callable[..., Any],
    inputs: Sequence[torch.Tensor],
    grad_out: torch.Tensor | None = None,
    *,
    device: str,
) -> Peak | None:
    """Of `call(*inputs)`, and of its backward where `grad_out` is given; None on a CPU, where the
    process has to be watched from outside. Leaves of the backward are views, not copies."""
    if device == "cpu":
        return None

    def forward() -> Any:
        with torch.no_grad():
            return call(*inputs)

    def both() -> Any:
        return gradients(call, inputs, grad_out)

    if grad_out is None:
        return allocator.peak(forward, device)
    return allocator.peak(both, device, generation=1)  # forward was read before, and all collected


def saved_bytes(
    call: Callable[..., Any], inputs: Sequence[torch.Tensor], options: Mapping[str, Any]
) -> Reading:
    """Kept from the forward pass for the backward; masks and lengths in `options` are inputs."""
    others = [x for value in options.values() for x in _each(value) if isinstance(x, torch.Tensor)]
    return saved.saved_bytes(call, inputs, others)


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)


def operations(call: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> list[Operation]:
    """Operators of a call on the CPU, with the time that each takes itself."""
    return operators.operations(lambda: call(*inputs))


def input_copies(call: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> Reading:
    """Bytes of q, k and v that operators copy in one call."""
    return copies.copied_bytes(call, inputs)
