"""Findings of a gate: passed, failed or not applicable, with numbers and a reason."""

import math
from dataclasses import dataclass
from typing import Literal


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


def _finite(value: float | None) -> float | None:
    """Records hold finite numbers only."""
    return float(value) if value is not None and math.isfinite(value) else None
