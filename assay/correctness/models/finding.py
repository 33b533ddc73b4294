"""Findings of a gate: passed, failed or not applicable, with numbers and a reason.

Most gates compare logits that should be equal; the worst of their comparisons is the finding.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import torch

from assay.records.schema import NOT_EXAMINED

UNIT = "of the largest logit"


class ContractViolation(Exception):
    """A model breaks the contract of docs/models.md; the message says how."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of one gate on one model.

    `value` is what the gate measured, such as the largest difference, or None; `reason` describes
    it in words and numbers, also where the gate passed.
    """

    status: Literal["ok", "failed", "unsupported"]
    reason: str
    value: float | None = None
    unit: str = ""


def passed(reason: str, *, value: float | None = None, unit: str = "") -> Finding:
    return Finding(status="ok", reason=reason, value=_finite(value), unit=unit)


def failed(reason: str, *, value: float | None = None, unit: str = "") -> Finding:
    return Finding(status="failed", reason=reason, value=_finite(value), unit=unit)


def unsupported(reason: str) -> Finding:
    return Finding(status="unsupported", reason=reason)


def not_examined(reason: str) -> Finding:
    """A gate that applies and could not look: tables count it as such, and say why."""
    return unsupported(f"{NOT_EXAMINED}{reason}")


def _finite(value: float | None) -> float | None:
    """Records hold finite numbers only."""
    return float(value) if value is not None and math.isfinite(value) else None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A difference relative to the largest number, its tolerance, and the message if exceeded."""

    difference: float
    tolerance: float
    message: str
    topic: str = ""  # the worst of each topic is reported
    locate: Callable[[], str | None] | None = None  # names the first module that differs

    @property
    def holds(self) -> bool:
        return self.difference <= self.tolerance

    @property
    def explanation(self) -> str:
        """The message, and the module to look at, where repeating the calls shows one."""
        try:
            module = self.locate() if self.locate is not None else None
        except Exception:  # what was seen counts, whatever becomes of calls with hooks
            module = None
        return f"{self.message}; first to differ is {module}" if module else self.message


def compare(
    actual: torch.Tensor,
    expected: torch.Tensor,
    tolerance: float,
    message: str,
    *,
    topic: str = "",
    locate: Callable[[], str | None] | None = None,
) -> Comparison:
    """Compare two tensors; %.2g in the message stands for their relative difference."""
    difference = relative_difference(actual, expected)
    return Comparison(
        difference=difference,
        tolerance=tolerance,
        message=message.replace("%.2g", f"{difference:.2g}"),
        topic=topic,
        locate=locate,
    )


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
    messages = "; ".join(comparison.explanation for comparison in worst.values())
    largest = max(comparison.difference for comparison in worst.values())
    return failed(f"{messages}{count}", value=largest, unit=UNIT)
