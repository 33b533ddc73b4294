"""PyTorch: tensors on the CPU or a CUDA (or ROCm) device."""

import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from assay.instruments.launches import was_refused
from assay.instruments.out_of_memory import ran_out

_multiply = np.multiply  # bound before any code of a user's is loaded


def place(array: np.ndarray, dtype: str, device: str, layout: str = "plain") -> torch.Tensor:
    """A tensor with exactly these values on `device`, lying in memory as `layout` says."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    # A copy: what an implementation writes into its inputs must not reach the workload.
    return _lay_out(tensor.to(device=device, dtype=getattr(torch, dtype), copy=True), layout)


def marks(array: np.ndarray, device: str) -> torch.Tensor:
    """Lengths, positions or a mask, of the dtype they have."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def layouts() -> tuple[str, ...]:
    """The ways other than plain in which arrays can lie in memory."""
    return (*_ORDERS, *_VIEWS, "offset", "expanded")


# Orders of [batch, heads, length, dim] in memory.
_ORDERS = {"transposed": (0, 2, 1, 3), "outer": (2, 0, 1, 3), "headsfirst": (1, 0, 2, 3)}
# Shapes of what holds an array besides NaN, and where in it that lies: in models beside the other
# of keys and values, beside queries too, or in a longer sequence.
_VIEWS: dict[str, tuple[Callable[..., tuple[int, ...]], Callable[[Any], Any]]] = {
    "wide": (lambda b, h, n, d: (b, h, n, 2 * d), lambda x: x[..., x.shape[-1] // 2 :]),
    "strided": (lambda b, h, n, d: (b, h, n, 2 * d), lambda x: x[..., ::2]),
    "kvstacked": (lambda b, h, n, d: (2, b, h, n, d), lambda x: x[1]),
    "kvrows": (lambda b, h, n, d: (b, n, 2, h, d), lambda x: x[:, :, 1].transpose(1, 2)),
    "qkvpacked": (lambda b, h, n, d: (b, n, 3, h, d), lambda x: x[:, :, 1].transpose(1, 2)),
    "sliced": (lambda b, h, n, d: (b, h, 2 * n, d), lambda x: x[:, :, x.shape[2] // 2 :]),
}


def _lay_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values in other places; what lies between them is NaN."""
    if order := _ORDERS.get(layout):
        back = [order.index(axis) for axis in range(4)]
        return tensor.permute(order).contiguous().permute(back)
    if layout == "expanded":  # one batch row in memory; only for equal rows
        equal = bool((tensor == tensor[:1]).all())
        return tensor[:1].expand(tensor.shape) if equal else tensor
    if layout in _VIEWS:
        shape, taken_from = _VIEWS[layout]
        view = taken_from(tensor.new_full(shape(*tensor.shape), float("nan")))
    elif layout == "offset":
        holder = tensor.new_full((tensor.numel() + 1,), float("nan"))
        view = holder[1:].view(tensor.shape)
    else:
        return tensor
    return view.copy_(tensor)


def numpy(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's values as float64."""
    return tensor.detach().double().cpu().numpy()


def bits(tensor: torch.Tensor) -> bytes:
    """The tensor's very bytes, in the order of its indices."""
    return tensor.detach().contiguous().cpu().flatten().view(torch.uint8).numpy().tobytes()


def taken(tensor: torch.Tensor, index: Sequence[np.ndarray]) -> torch.Tensor:
    """Return the elements at some places, given by an integer array for each of the first axes."""
    return tensor[tuple(torch.from_numpy(i).to(tensor.device) for i in index)]


def all_finite(tensor: torch.Tensor) -> bool:
    """True where no element is infinite or NaN; -inf of an LSE that sees nothing is finite."""
    if tensor.dim() == 3:
        return not bool((tensor.isnan() | tensor.isposinf()).any())
    return bool(tensor.isfinite().all())


def swapped(tensor: torch.Tensor, first: int, second: int) -> torch.Tensor:
    return tensor.transpose(first, second)


def expanded(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """The tensor as if repeated along its axes of size one, without a copy."""
    return tensor.expand(*shape)


def tiled(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """The tensor `count` times along its first axis, in memory."""
    return tensor.repeat(count, *(1 for _ in tensor.shape[1:]))


def stretched(tensor: torch.Tensor, axis: int, length: int) -> torch.Tensor:
    """The tensor repeated along an axis to that length, in memory."""
    times = [1] * tensor.dim()
    times[axis] = -(-length // tensor.shape[axis])
    return tensor.repeat(times).narrow(axis, 0, length).contiguous()


def device_overhead(device: str) -> int | None:
    """Bytes that a GPU holds beside tensors."""
    free, total = torch.cuda.mem_get_info(device)
    return total - free - torch.cuda.memory_reserved(device)


def overwrite(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor | None:
    """Other values in the same memory; None where arrays cannot be changed."""
    return tensor.copy_(values)


def is_array(value: object) -> bool:
    """True for a plain tensor in memory. One of a subclass, or of a device that computes when it is
    asked, may have no values yet when a call returns."""
    return type(value) is torch.Tensor and value.device.type in ("cpu", "cuda")


def dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def gradients(
    call: Callable[..., torch.Tensor],
    inputs: Sequence[torch.Tensor],
    grad_out: torch.Tensor,
    wanted: tuple[bool, bool, bool] = (True, True, True),
) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """The output of `call(*inputs)` and the gradient of each wanted input, None where none is."""

    def forward() -> tuple[torch.Tensor, list[torch.Tensor]]:
        leaves = [
            tensor.detach().requires_grad_(needed)
            for tensor, needed in zip(inputs, wanted, strict=True)
        ]
        return call(*leaves), leaves

    out, leaves = forward()
    if not (is_array(out) and out.requires_grad):
        return out, (None, None, None)
    needed = [leaf for leaf in leaves if leaf.requires_grad]
    try:
        cotangents = iter(torch.autograd.grad(out, needed, grad_out, allow_unused=True))
    except RuntimeError as error:
        if not _wants_backward(error):
            raise
        out, leaves = forward()  # the graph of the first may be gone by half
        out.backward(grad_out)
        return out, tuple(leaf.grad for leaf in leaves)
    return out, tuple(next(cotangents) if leaf.requires_grad else None for leaf in leaves)


def _wants_backward(error: RuntimeError) -> bool:
    """True for what torch.utils.checkpoint in its reentrant form says to torch.autograd.grad, which
    it cannot work with; with .backward() it can."""
    return "use_reentrant" in str(error)


@contextmanager
def poisoned(device: str) -> Iterator[bool]:
    """Within it, memory that a program did not write holds NaN; yields whether it can be so."""
    if device != "cpu":  # what the allocator hands out again, kernels' own scratch included
        torch.cuda.empty_cache()
        block = torch.full((64 * 2**20,), float("nan"), device=device)
        small = [torch.full((2**n,), float("nan"), device=device) for n in range(6, 20)]
        del block, small
    with ExitStack() as patched:
        for owner, name in _FRESH:
            patched.enter_context(patch.object(owner, name, _filled(getattr(owner, name))))
        yield True


@contextmanager
def repeatable() -> Iterator[None]:
    """Within it, bits do not depend on what this process ran before.

    On an ARM CPU without instructions for bfloat16, torch (2.13) turns oneDNN off for good when the
    first product in that dtype fails there; later products in float32 have other bits.
    """
    used = torch.backends.mkldnn.enabled
    if platform.machine() == "aarch64" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        torch.backends.mkldnn.enabled = False
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = used


# What gives memory that was not written. Replaced for all threads: backward has its own.
_FRESH = (
    (torch, "empty"),
    (torch, "empty_like"),
    (torch, "empty_strided"),
    (torch.Tensor, "new_empty"),
    (torch.Tensor, "new_empty_strided"),
)


def _filled(fresh: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The same function, with NaN in what it gives."""

    def poisoned_memory(*args: Any, **kwargs: Any) -> torch.Tensor:
        tensor = fresh(*args, **kwargs)
        if tensor.is_floating_point():
            with torch.no_grad():
                tensor.fill_(float("nan"))
        return tensor

    return poisoned_memory


def pullback(
    call: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor], state: dict[str, Any]
) -> Callable[[torch.Tensor], tuple[torch.Tensor, ...]]:
    """Runs the forward pass; what comes back runs the backward pass, once. Where that must be
    .backward(), the first call finds out, and `state` remembers it."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    out = call(*leaves)

    def backward(grad_out: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if not state.get("backward"):
            try:
                return torch.autograd.grad(out, leaves, grad_out)
            except RuntimeError as error:
                if not _wants_backward(error):
                    raise
            state["backward"] = True
            return pullback(call, inputs, state)(grad_out)
        out.backward(grad_out)
        return tuple(leaf.grad for leaf in leaves)

    return backward


def trained(
    call: Callable[..., torch.Tensor],
    inputs: Sequence[torch.Tensor],
    grad_out: torch.Tensor,
    state: dict[str, Any],
) -> tuple[torch.Tensor, ...]:
    """The gradients, by a forward and a backward pass."""
    return pullback(call, inputs, state)(grad_out)


def times(tensor: torch.Tensor, factor: float | np.ndarray) -> torch.Tensor:
    """The tensor multiplied by a number, or by one for each place of its last axis, lying in
    memory as it does. In float32 on a CPU one thread does it: on a busy machine, several wait for
    each other for longer."""
    result = torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    if tensor.device.type == "cpu" and tensor.dtype == torch.float32:
        _multiply(tensor.detach().numpy(), np.float32(factor), out=result.numpy())
        return result
    if isinstance(factor, np.ndarray):
        factor = torch.from_numpy(factor).to(device=tensor.device, dtype=tensor.dtype)
    return torch.mul(tensor, factor, out=result)


def checksum(tensor: torch.Tensor) -> int:
    """A number that changes when an element does; read on the device, on a CPU by one thread."""
    if tensor.device.type == "cpu":
        content = tensor.detach().contiguous().view(torch.uint8).numpy().ravel()
        whole_bytes = content.size // 8 * 8
        words, rest = content[:whole_bytes].view(np.int64), content[whole_bytes:].tobytes()
        return int(words.sum(dtype=np.int64)) + int.from_bytes(rest, "little")
    whole = torch.int32 if tensor.element_size() == 4 else torch.int16
    return int(tensor.contiguous().view(whole).sum(dtype=torch.int64))


def may_have_compiled() -> bool:
    """True where Dynamo or Triton is loaded, without which nothing is compiled."""
    return not sys.modules.keys().isdisjoint(("torch._dynamo", "triton.compiler"))


def keep_compiled_in(folder: str) -> None:
    """Have Triton and Inductor keep what they compile from now on in `folder`."""
    os.environ["TRITON_CACHE_DIR"] = f"{folder}/triton"
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/inductor"


def synchronize(device: str) -> None:
    """Return when all work handed to `device` is done."""
    if device != "cpu":
        torch.cuda.synchronize(device)


def empty_cache(device: str) -> None:
    """Give unused device memory back, so that the next call starts from the same state."""
    if device != "cpu":
        torch.cuda.empty_cache()


def device_lost(error: BaseException) -> bool:
    """True where a CUDA error left the device unusable, such as an illegal memory access."""
    if type(error).__name__ != "AcceleratorError":
        return False
    return not ran_out(error) and not was_refused(error)
