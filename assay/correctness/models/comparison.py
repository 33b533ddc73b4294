"""Differences between logits that should be equal, and the worst of several as a finding."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from assay.correctness.models.finding import Finding, failed, passed

UNIT = "of the largest logit"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A difference relative to the largest number, its tolerance, and the message if exceeded."""

    difference: float
    tolerance: float
    message: str
    topic: str = ""  # the worst of each topic is reported

    @property
    def holds(self) -> bool:
        return self.difference <= self.tolerance


def compare(
    actual: torch.Tensor,
    expected: torch.Tensor,
    tolerance: float,
    template: str,
    *,
    topic: str = "",
    **values: Any,
) -> Comparison:
    """Compare two tensors; the template is formatted with `difference` and `values`."""
    difference = relative_difference(actual, expected)
    message = template.format(difference=difference, **values)
    return Comparison(difference=difference, tolerance=tolerance, message=message, topic=topic)


def requirement(condition: bool, message: str) -> Comparison:
    """A comparison that holds where `condition` does."""
    return Comparison(difference=0.0 if condition else math.inf, tolerance=0.0, message=message)


def relative_difference(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest difference over the largest expected number; infinite where one is not finite."""
    if actual.numel() == 0:
        return 0.0
    actual, expected = actual.detach(), expected.detach()
    largest = (actual - expected).abs().max()
    if not (largest.isfinite() and actual.isfinite().all() and expected.isfinite().all()):
        return math.inf
    return float(largest) / max(float(expected.abs().max()), 1e-30)


def summarize(comparisons: Iterable[Comparison], *, success: str) -> Finding:
    """Fail with the worst broken comparison of each topic, or pass with the largest difference."""
    comparisons = list(comparisons)
    broken = [comparison for comparison in comparisons if not comparison.holds]
    if not broken:
        largest = max((comparison.difference for comparison in comparisons), default=0.0)
        return passed(success, value=largest, unit=UNIT)
    worst: dict[str, Comparison] = {}
    for comparison in broken:
        known = worst.setdefault(comparison.topic, comparison)
        worst[comparison.topic] = max(known, comparison, key=lambda each: each.difference)
    count = f" ({len(broken)} of {len(comparisons)} comparisons)" if len(comparisons) > 1 else ""
    messages = "; ".join(comparison.message for comparison in worst.values())
    largest = max(comparison.difference for comparison in worst.values())
    return failed(f"{messages}{count}", value=largest, unit=UNIT)
