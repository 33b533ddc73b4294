"""Differences between logits that should be equal, and the worst of several as a finding."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from assay.correctness.models.finding import Finding, failed, passed

UNIT = "of the largest logit"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What moved, relative to the largest number, how far it may, and what that means in words."""

    moved: float
    allowed: float
    words: str
    about: str = ""  # of a gate that looks at several things, which of them

    @property
    def holds(self) -> bool:
        return self.moved <= self.allowed


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference relative to the largest number; infinite where one is not finite."""
    if one.numel() == 0:
        return 0.0
    one, other = one.detach(), other.detach()
    apart = (one - other).abs().max()
    if not (apart.isfinite() and one.isfinite().all() and other.isfinite().all()):
        return float("inf")
    return float(apart) / max(float(other.abs().max()), 1e-30)


def verdict(comparisons: Iterable[Comparison], *, held: str, unit: str = UNIT) -> Finding:
    """Of each thing looked at the comparison that goes furthest beyond its bound; or, of all, the
    largest one within it."""
    seen = list(comparisons)
    broken = [one for one in seen if not one.holds]
    if broken:
        worst: dict[str, Comparison] = {}
        for one in broken:
            before = worst.setdefault(one.about, one)
            worst[one.about] = max(before, one, key=lambda each: each.moved)
        rest = f" ({len(broken)} of {len(seen)} comparisons)" if len(seen) > 1 else ""
        words = "; ".join(one.words for one in worst.values())
        largest = max(one.moved for one in worst.values())
        return failed(f"{words}{rest}", value=largest, unit=unit)
    return passed(held, value=max((one.moved for one in seen), default=0.0), unit=unit)


@contextmanager
def mode(model: nn.Module, name: str, *, graphs: bool = False) -> Iterator[None]:
    """Within it a model is in "train" or "eval" mode, and builds graphs where they are wanted.

    Afterwards it stays in that mode: to change it takes as long as a call.
    """
    if model.training != (name == "train"):
        model.train(name == "train")
    with torch.set_grad_enabled(graphs):
        yield
