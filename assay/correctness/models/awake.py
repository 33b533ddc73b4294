"""Models with noise on every weight, in float64 where they run in it, so that nothing hides.

A gate that starts at zero hides a leak behind it, nearly equal scores hide a wrong mask, and
float32 hides what is small.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from assay.correctness.models.finding import BrokenContract
from assay.correctness.models.model_calls import call

# Relative to the largest logit: what the same computation may differ by when other tokens of its
# batch change, and when it is done in other shapes. By the least precise dtype on the way.
_SAME = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
_OTHER = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
_SPREADS = (1.2, 0.3)  # of the noise; the second where a model overflows with the first
_GATE_OPENED = 0.5
_ALIKE = 1e-2  # how far float32 and a wider dtype may be apart, of the largest logit


@dataclass(frozen=True, kw_only=True)
class Awake:
    """A model that is awake."""

    model: nn.Module
    dtype: torch.dtype
    lowest: torch.dtype  # the least precise one that it computes in
    signed: tuple[nn.Parameter, ...]  # gates and biases: what may be negative and is no matrix

    @property
    def same(self) -> float:
        """The tolerance between calls of one shape."""
        return _SAME[self.lowest]

    @property
    def other(self) -> float:
        """The tolerance between calls of other shapes."""
        return _OTHER[self.lowest]

    def through(self, tensors: Iterable[torch.Tensor]) -> float:
        """The tolerance where numbers were kept in these tensors on the way."""
        return max([self.other, *(_OTHER.get(tensor.dtype, 0.0) for tensor in tensors)])


def awaken(
    make: Callable[[int], nn.Module],
    idx: torch.Tensor,
    *,
    seed: int,
    widest: torch.dtype = torch.float64,
) -> Awake:
    """Make a model and wake it, in the widest dtype that it runs in."""
    for spread in _SPREADS:
        model = make(seed)
        signed = rouse(model, seed=seed, spread=spread)
        dtype, lowest, finite = _widen(model, idx, widest)
        if finite:
            return Awake(model=model, dtype=dtype, lowest=lowest, signed=signed)
    raise BrokenContract("logits are not finite with moderate noise on the weights")


@torch.no_grad()
def rouse(model: nn.Module, *, seed: int, spread: float = _SPREADS[0]) -> tuple[nn.Parameter, ...]:
    """Noise on every weight: what is positive stays so, what is frozen stays as it is.

    Returns gates and biases that may be negative.
    """
    signed = []
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        noise = torch.randn(weight.shape, generator=generator).to(weight)
        if not weight.requires_grad:
            _open(weight)
        elif (weight > 0).all():
            weight.mul_((0.25 * spread * noise).exp())
        elif weight.ndim >= 2:
            weight.add_(noise * (spread / math.sqrt(weight.shape[-1])))
        else:
            single = weight.numel() == 1
            weight.add_(spread * (0.25 + 0.25 * noise.abs() if single else 0.35 * noise))
            signed.append(weight)
    for buffer in model.buffers():
        _open(buffer)
    return tuple(signed)


def in_dtype(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The model with its real numbers in a dtype; torch's own way would make complex ones real."""
    return model._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


@contextmanager
def turned(awake: Awake) -> Iterator[None]:
    """Within it, gates and biases have the other sign."""

    def turn() -> None:
        with torch.no_grad():
            for weight in awake.signed:
                weight.neg_()

    turn()
    try:
        yield
    finally:
        turn()


def _open(gate: torch.Tensor) -> None:
    """A single frozen number at zero is a switch that somebody would turn on later."""
    if gate.numel() == 1 and gate.is_floating_point() and float(gate) == 0:
        gate.fill_(_GATE_OPENED)


@torch.no_grad()
def _widen(
    model: nn.Module, idx: torch.Tensor, widest: torch.dtype
) -> tuple[torch.dtype, torch.dtype, bool]:
    """Put a model into a dtype, unless it cannot run in it or is another function there.

    Kernels of torch misread masks of another dtype than their inputs rather than refuse them.
    Returns the dtype, the least precise one that it computes in, and whether logits are finite.
    """
    right = call(in_dtype(model, torch.float32), idx).logits
    narrowing = _Narrowing(widest)
    try:
        with narrowing:
            logits = call(in_dtype(model, widest), idx).logits
        if (logits - right).abs().max() <= _ALIKE * right.abs().max():
            return widest, narrowing.lowest, bool(logits.isfinite().all())
    except Exception:  # whatever it is: float32 has run
        pass
    in_dtype(model, torch.float32)
    return torch.float32, torch.float32, bool(right.isfinite().all())


class _Narrowing(TorchDispatchMode):
    """Finds the least precise dtype that numbers of a wide one are converted to on the way."""

    def __init__(self, wide: torch.dtype) -> None:
        super().__init__()
        self.wide = self.lowest = wide

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and _SAME.get(out.dtype, 0) > _SAME[self.lowest]:
            wide = (a for a in args if isinstance(a, torch.Tensor) and a.dtype == self.wide)
            if any(True for _ in wide):
                self.lowest = out.dtype
        return out
