"""AdamW, fused: matrices decay, vectors (biases, norms, gates) do not."""

import torch
from torch import nn

from assay.train.settings import TrainSettings

BETAS = (0.9, 0.95)


def make(model: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    weights = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in weights if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in weights if p.ndim < 2], "weight_decay": 0.0},
    ]
    kept = [group for group in groups if group["params"]]
    return torch.optim.AdamW(kept, lr=settings.learning_rate, betas=BETAS, fused=True)
