"""Groups of parameters that the optimizers here share: matrices decay, vectors (biases, norms,
gates) do not."""

from collections.abc import Iterable
from typing import Any

from torch import nn

from assay.train.settings import TrainSettings

BETAS = (0.9, 0.95)


def groups(weights: Iterable[nn.Parameter], settings: TrainSettings) -> list[dict[str, Any]]:
    """The trained of these weights in groups; one that would be empty is left out."""
    trained = [weight for weight in weights if weight.requires_grad]
    both = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in both if group["params"]]
