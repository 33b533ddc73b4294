"""Pruning of the linear maps of a model's blocks while it is trained, by masks.

A weight that is pruned is 0, its moments are 0, and its gradient is made 0 before gradients are
clipped; so it stays 0 and weighs in no norm. It never comes back. A mask has a byte for each
weight; `movement` needs a number of 4 bytes for each beside it.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import nn

from assay.errors import BadInput
from assay.train.matrices import layer_of, linear_maps
from assay.train.parallel import sharded, whole
from assay.train.pruning_plan import STATE_SCORES, PruningPlan
from assay.train.scores import score

_MOMENTS = ("exp_avg", "exp_avg_sq")
_KEPT, _MOVEMENT = "kept", "movement"
_MOST_OF_LAYER = 0.95  # of bitter4


class Pruning:
    """Masks, and what becomes of weights, moments and gradients under them.

    The masks are saved with the optimizer's state, as entries of each weight.
    """

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, plan: PruningPlan
    ) -> None:
        self.plan = plan
        self._maps, self._optimizer = linear_maps(model), optimizer
        if not self._maps:
            raise BadInput("this model has no linear maps in its blocks, so nothing to prune")
        self._weights = list(self._maps.values())
        self.total = sum(weight.numel() for weight in self._weights)
        self.kept = [torch.ones_like(weight, dtype=torch.bool) for weight in self._weights]
        self._movement = (
            [torch.zeros_like(weight) for weight in self._weights]
            if plan.score == "movement"
            else []
        )
        optimizer.register_state_dict_post_hook(self._add_to)
        optimizer.register_load_state_dict_pre_hook(self._take_from)

    @torch.no_grad()
    def mask_gradients(self) -> None:
        """To be called between the backward pass and the clipping of gradients."""
        for number, weight in enumerate(self._weights):
            if weight.grad is None:
                continue
            weight.grad.mul_(self.kept[number])
            if self._movement:
                self._movement[number].addcmul_(weight, weight.grad, value=-1)

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        """Prune what is due after the step of this number, counted from 1."""
        if not self.plan.is_due(step):
            return
        for members, count in self._groups(self.plan.target(step)):
            self._prune(members, count)
        for weight, kept in zip(self._weights, self.kept, strict=True):
            weight.mul_(kept)
            for value in self._optimizer.state[weight].values():
                if isinstance(value, torch.Tensor) and value.shape == weight.shape:
                    value.mul_(kept)

    def zeros(self) -> int:
        """Pruned weights, counted in the weights themselves; one that came back is not counted."""
        return sum(
            int(whole(((weight == 0) & ~kept).sum()))
            for weight, kept in zip(self._weights, self.kept, strict=True)
        )

    def _groups(self, target: float) -> list[tuple[list[int], int]]:
        """Numbers of the maps that are pruned together, and how many of their weights go."""
        if self.plan.score != "bitter4":
            return [(list(range(len(self._weights))), round(target * self.total))]
        layers: dict[int, list[int]] = {}
        for number, name in enumerate(self._maps):
            layers.setdefault(layer_of(name), []).append(number)
        sizes = [sum(self._weights[n].numel() for n in members) for members in layers.values()]
        lost = [share * size for share, size in zip(by_depth(target, sizes), sizes, strict=True)]
        ends = [round(end) for end in accumulate(lost, initial=0.0)]
        counts = [end - start for start, end in pairwise(ends)]
        return list(zip(layers.values(), counts, strict=True))

    def _prune(self, members: Sequence[int], count: int) -> None:
        """Leave exactly all but `count` weights of these maps, the lowest scores gone; of equal
        scores the first."""
        flat = torch.cat([self._score(number).flatten() for number in members])
        kept = torch.ones_like(flat, dtype=torch.bool)
        if count:
            highest = _kth_lowest(flat, count)
            below = flat < highest
            kept &= ~below
            ties = (flat == highest).nonzero().flatten()
            kept[ties[: count - int(below.sum())]] = False
        parts = kept.split([self.kept[number].numel() for number in members])
        for number, part in zip(members, parts, strict=True):
            own = self.kept[number]
            own &= sharded(part.view(own.shape), like=own)

    def _score(self, number: int) -> torch.Tensor:
        """The scores of a whole map; pruned weights are below all others."""
        weight, state = self._weights[number], self._optimizer.state[self._weights[number]]
        has_moments = all(name in state for name in _MOMENTS)
        if self.plan.score in STATE_SCORES and not has_moments:
            raise BadInput(
                f"{self.plan.score} is a score of Adam's moments, and the optimizer keeps no "
                f"{' and '.join(_MOMENTS)}, whatever its MOMENTS says; prune by magnitude"
            )
        moments = tuple(state[name] for name in _MOMENTS) if has_moments else None
        movement = self._movement[number] if self._movement else None
        values = score(self.plan.score, weight, moments, movement).float()
        return whole(values.masked_fill(~self.kept[number], float("-inf")))

    def _add_to(self, optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
        for number, index in enumerate(self._indices(optimizer)):
            entries = {_KEPT: self.kept[number]}
            if self._movement:
                entries[_MOVEMENT] = self._movement[number]
            saved["state"][index] = {**saved["state"].get(index, {}), **entries}

    def _take_from(self, optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
        state = {index: dict(entries) for index, entries in saved["state"].items()}
        for number, index in enumerate(self._indices(optimizer)):
            self.kept[number].copy_(state[index].pop(_KEPT))
            if self._movement:
                self._movement[number].copy_(state[index].pop(_MOVEMENT))
        return {**saved, "state": {index: entries for index, entries in state.items() if entries}}

    def _indices(self, optimizer: torch.optim.Optimizer) -> list[int]:
        """The number that each map has in the optimizer's state."""
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        places = {id(weight): index for index, weight in enumerate(weights)}
        return [places[id(weight)] for weight in self._weights]


def by_depth(target: float, sizes: Sequence[int]) -> list[float]:
    """The share of each layer that bitter4 prunes: from 0.7 of the target in the first layer to 1.3
    in the last, at most 0.95 of any. What a limit leaves over goes to the other layers, so that all
    together are the target."""
    if target > _MOST_OF_LAYER:
        raise BadInput(f"bitter4 leaves {1 - _MOST_OF_LAYER:.2f} of each layer; asked is {target}")
    last = max(1, len(sizes) - 1)
    slopes = [0.7 + 0.6 * number / last if len(sizes) > 1 else 1.0 for number in range(len(sizes))]
    low, high = 0.0, _MOST_OF_LAYER / min(slopes)
    for _ in range(100):  # the factor of the slopes, by halving
        middle = (low + high) / 2
        shares = [min(_MOST_OF_LAYER, middle * slope) for slope in slopes]
        reached = sum(s * n for s, n in zip(shares, sizes, strict=True)) / sum(sizes)
        low, high = (middle, high) if reached < target else (low, middle)
    return [min(_MOST_OF_LAYER, high * slope) for slope in slopes]


def _kth_lowest(values: torch.Tensor, count: int) -> torch.Tensor:
    if values.device.type == "cpu":
        return values.kthvalue(count).values
    return kth_by_bits(values, count)


def kth_by_bits(values: torch.Tensor, count: int) -> torch.Tensor:
    """The `count`-th lowest of these float32 values, found bit by bit in numbers of their order.

    torch's `kthvalue` has one block of threads for a row: a quarter of a training step's time on an
    H200 when every fiftieth step prunes (docs/optimizers.md), and not deterministic.
    """
    ordered = _in_order(values.view(torch.int32))
    lowest = torch.full((), -(2**31), dtype=torch.int32, device=values.device)
    for bit in reversed(range(32)):
        above = (lowest.long() + 2**bit).int()
        lowest = torch.where((ordered < above).sum() < count, above, lowest)
    return _in_order(lowest).view(torch.float32)


def _in_order(bits: torch.Tensor) -> torch.Tensor:
    """From a float's bits to an integer that is ordered as the floats are, and back."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)
