"""The optimizer of a model, and what is pruned beside it, as an entry of TRAIN_OPTIMIZERS says."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from assay import plugins
from assay.errors import BadInput
from assay.train.optimizer_choice import chosen
from assay.train.pruning import Pruning
from assay.train.settings import TrainSettings


def optimizer_of(
    model: nn.Module, settings: TrainSettings, folders: Sequence[Path]
) -> tuple[torch.optim.Optimizer, Pruning | None]:
    """Make both; BadInput where the optimizer does not fit the model."""
    choice = chosen(settings.optimizer, folders)
    make = plugins.load(choice.plugin).make
    try:
        optimizer = make(model, settings, **choice.own_options)
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadInput(
            f"the optimizer {choice.name} does not fit {settings.model}: {error}; "
            "`assay list optimizers` shows others"
        ) from error
    _require_all(model, optimizer, choice.name)
    for group in optimizer.param_groups:
        group["lr_factor"] = choice.rate * group.get("lr_factor", 1.0)
    plan = choice.pruning(settings.steps, model.config.sparsity)
    return optimizer, Pruning(model, optimizer, plan) if plan else None


def _require_all(model: nn.Module, optimizer: torch.optim.Optimizer, name: str) -> None:
    """Refuse an optimizer that leaves parameters of a part as they are."""
    moved = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
    left = [n for n, p in model.named_parameters() if p.requires_grad and id(p) not in moved]
    if left:
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""
        raise BadInput(
            f"the optimizer {name} has no group for {', '.join(left[:3])}{more}; every parameter "
            "that requires a gradient must be in one"
        )
