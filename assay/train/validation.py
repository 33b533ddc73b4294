"""Losses of a model on the validation stream, window by window, divided over the processes."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from assay.train.batches import ValidationWindows
from assay.train.parallel import OneProcess

_EVALUATED_TOKENS = 1 << 14  # at once


@torch.no_grad()
def window_losses(
    model: nn.Module,
    windows: ValidationWindows,
    *,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[Any]],
    parallel: OneProcess,
) -> list[float]:
    """The loss of each window in nats per token, in their order, in every process.

    A process has every `world`-th window. Where they do not divide evenly the last window fills
    up, since with sharded weights all take part in every pass; it counts once.
    """
    rounds = -(-windows.count // parallel.world)
    own = [min(n * parallel.world + parallel.rank, windows.count - 1) for n in range(rounds)]
    model.eval()
    losses = []
    for inputs, targets in windows.batches(max(1, _EVALUATED_TOKENS // windows.length), own):
        x, y = (torch.from_numpy(a).to(device) for a in (inputs, targets))
        with autocast():
            logits, _ = model(x)
        each = F.cross_entropy(logits.float().flatten(0, 1), y.flatten(), reduction="none")
        losses.append(each.view(y.shape).mean(1))
    model.train()
    parallel.rest()
    by_rank = torch.stack(parallel.gathered(torch.cat(losses)))  # [world, rounds]
    return by_rank.T.flatten()[: windows.count].tolist()
