"""What a gate says of a model: passed, failed or does not apply, with what was seen."""

import math
from dataclasses import dataclass
from typing import Literal


class BrokenContract(Exception):
    """A model does not do what docs/models.md asks of every model; the message says what."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """`value` is what the gate measured, such as the largest difference; None where nothing was.

    `reason` says what was seen in words and numbers, also of a gate that was passed.
    """

    status: Literal["ok", "failed", "unsupported"]
    reason: str
    value: float | None = None
    unit: str = ""


def passed(reason: str, *, value: float | None = None, unit: str = "") -> Finding:
    return Finding(status="ok", reason=reason, value=_known(value), unit=unit)


def failed(reason: str, *, value: float | None = None, unit: str = "") -> Finding:
    return Finding(status="failed", reason=reason, value=_known(value), unit=unit)


def unsupported(reason: str) -> Finding:
    return Finding(status="unsupported", reason=reason)


def _known(value: float | None) -> float | None:
    """A record holds no number that is not finite."""
    return float(value) if value is not None and math.isfinite(value) else None
