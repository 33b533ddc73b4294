"""Models with noise on every weight, in float64 where they run in it, so that nothing hides.

A gate that starts at zero hides a leak behind it, nearly equal scores hide a wrong mask, and
float32 hides small differences.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from assay.correctness.models.finding import ContractViolation
from assay.correctness.models.forward import forward
from assay.frameworks.torch.dispatch import OperatorWatch

# Tolerances relative to the largest logit, by the least precise dtype on the way: between calls of
# one shape when other tokens of the batch change, and between calls of different shapes.
_SAME_SHAPE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
_NEW_SHAPE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
_SPREADS = (1.2, 0.3)  # of the noise; the second where a model overflows with the first
_OPEN_SWITCH = 0.5
_DTYPES_AGREE = 1e-2  # of the largest logit: between float32 and a wider dtype


@dataclass(frozen=True, kw_only=True)
class PerturbedModel:
    """A model with noise on its weights, and the tolerances of its logits."""

    model: nn.Module
    dtype: torch.dtype
    lowest_dtype: torch.dtype  # the least precise dtype that it computes in
    signed_weights: tuple[nn.Parameter, ...]  # gates and biases: no matrices, of either sign

    @property
    def same_shape_tolerance(self) -> float:
        """Tolerance between calls of one shape."""
        return _SAME_SHAPE[self.lowest_dtype]

    @property
    def new_shape_tolerance(self) -> float:
        """Tolerance between calls of different shapes."""
        return _NEW_SHAPE[self.lowest_dtype]

    def tolerance_through(self, tensors: Iterable[torch.Tensor]) -> float:
        """Tolerance where numbers were stored in these tensors on the way."""
        stored = (_NEW_SHAPE.get(tensor.dtype, 0.0) for tensor in tensors)
        return max([self.new_shape_tolerance, *stored])


def perturbed_model(
    make: Callable[[int], nn.Module],
    idx: torch.Tensor,
    *,
    seed: int,
    widest: torch.dtype = torch.float64,
) -> PerturbedModel:
    """Make a model and perturb it, in the widest dtype that it runs in."""
    for spread in _SPREADS:
        model = make(seed)
        signed = perturb(model, seed=seed, spread=spread)
        dtype, lowest, finite = _widen(model, idx, widest)
        if finite:
            return PerturbedModel(
                model=model, dtype=dtype, lowest_dtype=lowest, signed_weights=signed
            )
    raise ContractViolation("logits are not finite with moderate noise on the weights")


@torch.no_grad()
def perturb(
    model: nn.Module, *, seed: int, spread: float = _SPREADS[0]
) -> tuple[nn.Parameter, ...]:
    """Put noise on every weight: positive weights stay positive, frozen ones stay as they are.

    Returns gates and biases that may be negative.
    """
    signed = []
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        noise = torch.randn(weight.shape, generator=generator).to(weight)
        if not weight.requires_grad:
            _open_switch(weight)
        elif (weight > 0).all():
            weight.mul_((0.25 * spread * noise).exp())
        elif weight.ndim >= 2:
            weight.add_(noise * (spread / math.sqrt(weight.shape[-1])))
        else:
            single = weight.numel() == 1
            weight.add_(spread * (0.25 + 0.25 * noise.abs() if single else 0.35 * noise))
            signed.append(weight)
    for buffer in model.buffers():
        _open_switch(buffer)
    return tuple(signed)


def to_dtype(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Convert real numbers of a model; torch's own way would make complex ones real."""
    return model._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@contextmanager
def signs_flipped(perturbed: PerturbedModel) -> Iterator[None]:
    """Negate gates and biases within the block."""

    def flip() -> None:
        with torch.no_grad():
            for weight in perturbed.signed_weights:
                weight.neg_()

    flip()
    try:
        yield
    finally:
        flip()


def _open_switch(tensor: torch.Tensor) -> None:
    """Open a single frozen number at zero: it is a switch that someone will turn on later."""
    if tensor.numel() == 1 and tensor.is_floating_point() and float(tensor) == 0:
        tensor.fill_(_OPEN_SWITCH)


@torch.no_grad()
def _widen(
    model: nn.Module, idx: torch.Tensor, widest: torch.dtype
) -> tuple[torch.dtype, torch.dtype, bool]:
    """Put a model into a dtype, unless it cannot run in it or is another function there.

    Kernels of torch misread masks of another dtype than their inputs rather than refuse them.
    Returns the dtype, the least precise one that it computes in, and True for finite logits.
    """
    expected = forward(to_dtype(model, torch.float32), idx).logits
    narrowing = _NarrowestDtype(widest)
    try:
        with narrowing:
            logits = forward(to_dtype(model, widest), idx).logits
        if (logits - expected).abs().max() <= _DTYPES_AGREE * expected.abs().max():
            return widest, narrowing.lowest, bool(logits.isfinite().all())
    except Exception:  # float32 has run, so the model stays in it
        pass
    to_dtype(model, torch.float32)
    return torch.float32, torch.float32, bool(expected.isfinite().all())


class _NarrowestDtype(OperatorWatch):
    """Finds the least precise dtype that numbers of a wide one are converted to."""

    def __init__(self, wide: torch.dtype) -> None:
        super().__init__()
        self.wide = self.lowest = wide

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        is_lower = isinstance(out, torch.Tensor) and (
            _SAME_SHAPE.get(out.dtype, 0) > _SAME_SHAPE[self.lowest]
        )
        if is_lower and any(
            isinstance(arg, torch.Tensor) and arg.dtype == self.wide for arg in args
        ):
            self.lowest = out.dtype
        return out
