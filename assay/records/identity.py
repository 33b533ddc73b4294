"""When two records are the same cell, and when their values may be compared."""

import hashlib
from typing import Any

import msgspec

from assay.records.schema import KEYS, Record, Run

_DIGEST_BYTES = 8


def digest(value: Any) -> str:
    """A short hash of plain data that does not depend on the order of keys."""
    encoded = msgspec.json.encode(value, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).hexdigest()


def same_cell(a: Record, b: Record) -> bool:
    """Whether both come from one cell: same options, thresholds, code, packages and inputs."""
    return (a.stage, a.cell, a.fingerprint) == (b.stage, b.cell, b.fingerprint)


def differences(a: Record, b: Record) -> list[str]:
    """Why the values of two records may not be compared; empty when they may.

    The subject is what a comparison is about, so it may differ. Everything else that moves a
    value may not: metric, unit, level, the very bytes of the workload, the machine.
    """
    pairs = {
        "metric": (a.metric, b.metric),
        "unit": (a.unit, b.unit),
        "level": (a.level, b.level),
        "workload": (_content(a), _content(b)),
        "host": (a.host, b.host),
        "status": (a.status, b.status),
    }
    return [
        f"{name}: {left} against {right}" for name, (left, right) in pairs.items() if left != right
    ]


def run_differences(a: Run, b: Run) -> list[str]:
    """Which of the fixed keys of two runs differ."""
    pairs = ((key, getattr(a, key), getattr(b, key)) for key in KEYS)
    return [f"{key}: {left} against {right}" for key, left, right in pairs if left != right]


def current(records: list[Record]) -> list[Record]:
    """The records of each cell's highest attempt, in their order."""
    highest: dict[tuple[str, str, str], int] = {}
    for record in records:
        key = (record.run, record.stage, record.cell)
        highest[key] = max(highest.get(key, 0), record.attempt)
    return [r for r in records if r.attempt == highest[r.run, r.stage, r.cell]]


def _content(record: Record) -> str | None:
    return record.workload.content if record.workload else None
