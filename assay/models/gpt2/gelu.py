"""GELU for compiled bfloat16: the error function by formula 7.1.26 of Abramowitz and Stegun.

torch's has two polynomials and a choice between them for each number, more than the memory's pace
leaves time for: 4.4 ms of a step of GPT-2 124M on an H200 went into it, 3.4 into this one
(docs/train.md). The formula is within 5e-7 of the true value; bfloat16 rounds to 4e-3 of it.
"""

from typing import Any

import torch
from torch.nn import functional as F

_P = 0.3275911 / 2**0.5
_HALVES = (0.127414796, -0.142248368, 0.7107068705, -0.7265760135, 0.5307027145)
_DENSITY = 0.3989422804  # of the normal distribution at 0


def gelu(x: torch.Tensor) -> torch.Tensor:
    """x Φ(x); outside of torch.compile, and in other dtypes, torch's own."""
    if x.dtype == torch.bfloat16 and torch.compiler.is_compiling():
        return CompiledGelu.apply(x)
    return F.gelu(x)


class CompiledGelu(torch.autograd.Function):
    """Written out for a compiler, which makes one kernel of each pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        wide = x.float()
        below, _ = _normal(wide)
        return (wide * below).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        wide = x.float()
        below, bell = _normal(wide)
        return (gradient.float() * (below + _DENSITY * wide * bell)).to(x.dtype)


def _normal(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The share of the normal distribution below x, and exp(-x²/2)."""
    bell = torch.exp(-0.5 * x * x)
    t = 1 / (1 + _P * x.abs())
    tail = torch.zeros_like(x)
    for coefficient in reversed(_HALVES):
        tail = (tail + coefficient) * t
    tail = tail * bell
    return torch.where(x > 0, 1 - tail, tail), bell
