"""Identity of cells: a hash of what defines one, and the attempt at it that counts."""

import hashlib
from typing import Any

import msgspec

from assay.records.schema import Record

_DIGEST_BYTES = 8


def digest(value: Any) -> str:
    """A short hash of plain data that does not depend on the order of keys."""
    encoded = msgspec.json.encode(value, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).hexdigest()


def current(records: list[Record]) -> list[Record]:
    """The records of each cell's highest attempt, in their order."""
    highest: dict[tuple[str, str, str], int] = {}
    for record in records:
        key = (record.run, record.stage, record.cell)
        highest[key] = max(highest.get(key, 0), record.attempt)
    return [r for r in records if r.attempt == highest[r.run, r.stage, r.cell]]
