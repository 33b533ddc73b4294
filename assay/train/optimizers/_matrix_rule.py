"""AdamW for vectors and embeddings, another rule for the linear maps, in one optimizer.

One optimizer has one `state_dict`, which is what is saved of a run; torch's own Muon takes matrices
alone and would need a second one beside it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from assay.train.matrices import linear_maps
from assay.train.optimizers._groups import BETAS, groups
from assay.train.settings import TrainSettings

Direction = Callable[..., torch.Tensor]


class MatrixRule(torch.optim.AdamW):
    """The linear maps move against what `direction(weight, state, **options)` makes of a gradient
    and a state, times the rate and after the decay of weights; all others are AdamW's."""

    def __init__(
        self, model: nn.Module, settings: TrainSettings, direction: Direction, **options: Any
    ) -> None:
        self._direction = direction
        maps = linear_maps(model)
        own = {id(weight) for weight in maps.values()}
        rest = [weight for weight in model.parameters() if id(weight) not in own]
        by_rule = {"params": list(maps.values()), "weight_decay": settings.weight_decay}
        super().__init__(
            [by_rule | {"rule": options}, *groups(rest, settings)],
            lr=settings.learning_rate,
            betas=BETAS,
            fused=True,
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        assert closure is None
        for group in self.param_groups:
            if "rule" not in group:
                continue
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                direction = self._direction(weight, self.state[weight], **group["rule"])
                weight.mul_(1.0 - group["lr"] * group["weight_decay"])
                weight.add_(direction, alpha=-group["lr"])
                weight.grad = None  # AdamW passes over it
        super().step()
