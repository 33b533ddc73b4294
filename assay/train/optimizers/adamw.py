"""AdamW, fused: matrices decay, vectors (biases, norms, gates) do not."""

import torch
from torch import nn

from assay.train.optimizers._groups import BETAS, groups
from assay.train.settings import TrainSettings

MOMENTS = True


def make(model: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    return torch.optim.AdamW(
        groups(model.parameters(), settings), lr=settings.learning_rate, betas=BETAS, fused=True
    )
