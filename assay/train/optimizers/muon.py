"""Muon: the momentum of a linear map made orthogonal by Newton and Schulz, AdamW for the rest.

A direction has the root mean square of AdamW's, about 0.2, so that both take one learning rate
(Liu et al. 2025). torch.optim.Muon with adjust_lr_fn="match_rms_adamw" does the same, and the tests
hold this one to it; it takes matrices alone, and could not keep its state with AdamW's.
"""

from math import sqrt
from typing import Any

import torch
from torch import nn

from assay.errors import BadInput
from assay.train.optimizers._matrix_rule import MatrixRule
from assay.train.parallel import sharded, whole
from assay.train.settings import TrainSettings

OPTIONS = {"momentum": 0.95, "iterations": 5}
SPARSE = False
_QUINTIC = (3.4445, -4.7750, 2.0315)  # coefficients of x, x^3 and x^5
_LEAST_NORM = 1e-7
_RMS = 0.2


def make(
    model: nn.Module, settings: TrainSettings, *, momentum: float, iterations: int
) -> torch.optim.Optimizer:
    if not 0 <= momentum < 1 or iterations < 1:
        raise BadInput(
            f"muon with momentum={momentum}, iterations={iterations}; wanted a momentum from 0 to "
            "below 1 and at least one iteration"
        )
    return MatrixRule(model, settings, _direction, momentum=momentum, iterations=iterations)


def _direction(
    weight: nn.Parameter, state: dict[str, Any], *, momentum: float, iterations: int
) -> torch.Tensor:
    if not state:  # AdamW looks for a step where there is a state
        state |= {"step": torch.zeros(()), "momentum_buffer": torch.zeros_like(weight)}
    buffer = state["momentum_buffer"].lerp_(weight.grad, 1 - momentum)
    ahead = weight.grad.lerp(buffer, momentum)  # Nesterov's
    near = orthogonal(whole(ahead), iterations).to(weight.dtype)
    return sharded(near * (_RMS * sqrt(max(weight.shape))), like=weight)


def orthogonal(matrix: torch.Tensor, iterations: int) -> torch.Tensor:
    """A matrix near the orthogonal one that is nearest to this, its singular values within 0.7 to
    1.2; in bfloat16, of which the iteration bears the error."""
    a, b, c = _QUINTIC
    wide = matrix.bfloat16() if matrix.shape[0] <= matrix.shape[1] else matrix.bfloat16().mT
    wide = wide / wide.norm().clamp(min=_LEAST_NORM)
    for _ in range(iterations):
        gram = wide @ wide.mT
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.mT
