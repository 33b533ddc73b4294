"""SinkGD: the gradient of a linear map with rows and columns of equal norms, AdamW for the rest.

Rows and columns are brought to the norm that they have in a matrix of ones, in turn (Scetbon et al.
2025); nothing is remembered between steps. The result has a root mean square of 1, AdamW's
directions about 0.2: `factor` brings the one learning rate down to it. An older form, with L1 norms
and a hyperbolic tangent, is another optimizer and is not here.
"""

from math import inf, sqrt
from typing import Any

import torch
from torch import nn

from assay.errors import BadInput
from assay.train.optimizers._matrix_rule import MatrixRule
from assay.train.parallel import sharded, whole
from assay.train.settings import TrainSettings

OPTIONS = {"iterations": 5, "factor": 0.2}
_LEAST_NORM = 1e-30


def make(
    model: nn.Module, settings: TrainSettings, *, iterations: int, factor: float
) -> torch.optim.Optimizer:
    if iterations < 1 or not 0 < factor < inf:
        raise BadInput(
            f"sinkgd with iterations={iterations}, factor={factor}; wanted at least one iteration "
            "and a factor above 0"
        )
    return MatrixRule(model, settings, _direction, iterations=iterations, factor=factor)


def _direction(
    weight: nn.Parameter, state: dict[str, Any], *, iterations: int, factor: float
) -> torch.Tensor:
    return sharded(balanced(whole(weight.grad), iterations) * factor, like=weight)


def balanced(matrix: torch.Tensor, iterations: int) -> torch.Tensor:
    """The matrix with rows, then columns, of equal L2 norm, so often; rows of zeros stay."""
    rows, columns = matrix.shape
    for _ in range(iterations):
        by_row = matrix.norm(dim=1, keepdim=True).clamp(min=_LEAST_NORM)
        matrix = matrix * (sqrt(columns) / by_row)
        by_column = matrix.norm(dim=0, keepdim=True).clamp(min=_LEAST_NORM)
        matrix = matrix * (sqrt(rows) / by_column)
    return matrix
