"""Memory of a torch call: its peak, and what autograd keeps of it.

The peak is the allocator's own account: on a CUDA (or ROCm) device its statistics, to its granule
of 512 bytes; on a CPU its list of allocations and frees, to the byte, whatever malloc lies below.
It counts all that torch and its libraries ask the allocator for; not what a library takes from the
driver or from malloc itself, nor what other frameworks hold. Of what autograd keeps, storages
count, each once and whole, that are not those of the inputs. A tensor that an implementation hangs
onto its context by hand is not seen.
"""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import torch
from torch.autograd import DeviceType

from assay.frameworks.torch.arrays import gradients
from assay.instruments.reading import Peak, Reading

PEAK_SOURCE = (
    "torch.cuda.max_memory_allocated of one call, reset before it, minus memory_allocated before; "
    "after one unmeasured call, so that libraries' lasting workspaces do not count"
)
COUNTED_SOURCE = (
    "the largest sum of what torch's allocator handed out and took back (the memory events of "
    "torch.autograd.profiler), in one call after an unmeasured one"
)
WORKSPACE_SOURCE = (
    "memory_allocated after one call, minus the same after torch._C._cuda_clearCublasWorkspaces(): "
    "what cuBLAS keeps for each handle and stream, in no peak; what cuDNN and others take for the "
    "time of a call is in the peaks"
)
SAVED_SOURCE = (
    "torch.autograd.graph.saved_tensors_hooks: distinct storages above the inputs; without what "
    "a function keeps by other means than save_for_backward"
)


def peak(
    call: Callable[..., Any],
    inputs: Sequence[torch.Tensor],
    grad_out: torch.Tensor | None = None,
    *,
    device: str,
) -> Peak | None:
    """Peak of `call(*inputs)`, and of its backward where `grad_out` is given; None on a CPU, where
    `counted_peak` does it in a process of its own. Leaves of the backward are views, not copies."""
    if device == "cpu":
        return None

    def forward() -> Any:
        with torch.no_grad():
            return call(*inputs)

    def both() -> Any:
        return gradients(call, inputs, grad_out)

    if grad_out is None:
        return _allocated(forward, device)
    return _allocated(both, device, generation=1)  # forward was read before, and all collected


def _allocated(run: Callable[[], Any], device: str, *, generation: int = 2) -> Peak:
    """Peak of `run`, whose result is held until the peak was read.

    `generation` is the oldest of Python's objects that are collected before. To collect all takes
    longer than most calls once torch, Triton and JAX are loaded: once for each implementation will
    do, since what an old cycle holds was there before and stays while the call is measured.
    """
    run()
    gc.collect(generation)
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    with _uncollected():
        kept = run()
        torch.cuda.synchronize(device)
    allocated = torch.cuda.max_memory_allocated(device)
    reserved = torch.cuda.max_memory_reserved(device)
    del kept
    return Peak(
        value=allocated - before,
        source=PEAK_SOURCE,
        reserved_bytes=reserved,
        allocated_bytes=allocated,
    )


def workspace_bytes(
    call: Callable[..., Any],
    inputs: Sequence[torch.Tensor],
    grad_out: torch.Tensor | None = None,
    *,
    device: str,
) -> Reading | None:
    """Bytes that libraries keep from `call(*inputs)`, and its backward where `grad_out` is given,
    for their next calls; None on a CPU. They are freed: the next matrix product takes them anew."""
    if device == "cpu":
        return None
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is None:
        reason = "this torch has no _cuda_clearCublasWorkspaces to tell workspaces by"
        return Reading(value=None, reason=reason)
    torch.cuda.synchronize(device)
    clear()  # those of other calls
    if grad_out is None:
        with torch.no_grad():
            kept = call(*inputs)
    else:
        kept = gradients(call, inputs, grad_out)
    torch.cuda.synchronize(device)
    with _uncollected():
        held = torch.cuda.memory_allocated(device)
        clear()
        value = held - torch.cuda.memory_allocated(device)
    del kept
    return Reading(value=value, source=WORKSPACE_SOURCE)


def counted_peak(run: Callable[[], Any]) -> Peak:
    """Peak of `run` on the CPU; what was there before and is freed in it does not count."""
    with torch.autograd.profiler.profile(profile_memory=True) as profiled, _uncollected():
        kept = run()
    del kept
    changes = [
        event
        for event in profiled.kineto_results.events()
        if event.name() == "[memory]" and event.device_type() == DeviceType.CPU
    ]
    changes.sort(key=lambda event: event.start_ns())
    highest = max(accumulate((event.nbytes() for event in changes), initial=0))
    return Peak(value=highest, source=COUNTED_SOURCE)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Within it no cycle is collected: memory freed midway would be missing from the peak."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def saved_bytes(
    call: Callable[..., Any], inputs: Sequence[torch.Tensor], options: Mapping[str, Any]
) -> Reading:
    """Bytes kept from `call(*inputs)` for the backward pass; masks and lengths in `options` are
    inputs too."""
    values = [x for value in options.values() for x in _each(value)]
    others = [value for value in values if isinstance(value, torch.Tensor)]
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    theirs = {_address(tensor) for tensor in (*leaves, *others)}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if _address(tensor) not in theirs:
            kept[_address(tensor)] = tensor.untyped_storage().nbytes()
        return tensor.detach()  # an output that holds itself would never be freed

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        out = call(*leaves)  # alive while counting, so no address is used twice
    if not (isinstance(out, torch.Tensor) and out.requires_grad):
        return Reading(value=None, reason="the output does not depend on the inputs by autograd")
    return Reading(value=sum(kept.values()), source=SAVED_SOURCE)


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)
