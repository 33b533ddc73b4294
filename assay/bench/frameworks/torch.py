"""PyTorch: tensors on the CPU or a CUDA (or ROCm) device."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

REQUIRES = ("torch",)


def place(array: np.ndarray, dtype: str, device: str) -> torch.Tensor:
    """A tensor with exactly these values on `device`."""
    return torch.from_numpy(array).to(device=device, dtype=getattr(torch, dtype))


def numpy(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's values as float64."""
    return tensor.detach().double().cpu().numpy()


def synchronize(device: str) -> None:
    """Return when all work handed to `device` is done."""
    if device != "cpu":
        torch.cuda.synchronize(device)


def gradients(
    call: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor], grad_out: torch.Tensor
) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """The output of `call(*inputs)` and the gradient of each input, None where none arrives."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    out = call(*leaves)
    return out, torch.autograd.grad(out, leaves, grad_out, allow_unused=True)


def empty_cache(device: str) -> None:
    """Give unused device memory back, so that the next call starts from the same state."""
    if device != "cpu":
        torch.cuda.empty_cache()


def out_of_memory(error: BaseException) -> bool:
    """Whether an error of this framework means that memory ran out."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
