"""A claim: one published sentence, the records it needs, and what would refute it.

    claims/append-speed.toml
    says = "Appending in durable cells runs at 0.91 times the speed of a bare loop."
    page = "docs/results/spine.md"
    refuted_by = "A median below 0.7 over five rounds on one machine."
    [records]
    evidence = "spine"                  # the folder evidence/spine
    where = { metric = "append_ratio", subject = "log" }
    [holds]
    statistic = "median"                # or minimum, maximum, value
    at_least = 0.7                      # and / or at_most
    shown = "0.91"                      # the figure as the page prints it

Optional: `scope`, the conditions in words; `level`, which the record must have; a table [against]
like [records], for a figure that is a ratio: the statistic of the record over that of the other
one, over paired rounds where both have samples of one cell; and a table [control] like [records],
the negative control: a record that must be beyond the bounds, or the claim would hold of anything.
`again` is a command of assay, without its name, that measures the record again.

The page prints the figure as a link to the claim's file, so no figure stands without its records.
"""

import re
import tomllib
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Literal

import msgspec

from assay.errors import BadInput
from assay.records.schema import Level, Record

STATISTICS = {"median": median, "minimum": min, "maximum": max}


class RecordSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The records that a claim rests on: those of an evidence folder whose fields equal `where`."""

    evidence: str
    where: dict[str, str]


class ClaimCondition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The condition on the selected record, and the figure that is printed."""

    statistic: Literal["median", "minimum", "maximum", "value"]
    shown: str
    at_least: float | None = None
    at_most: float | None = None

    def allows(self, value: float) -> bool:
        """True within the bounds."""
        low, high = self.at_least, self.at_most
        return (low is None or value >= low) and (high is None or value <= high)

    @property
    def bounds(self) -> str:
        """The bounds in words."""
        ends = (("at least", self.at_least), ("at most", self.at_most))
        return " and ".join(f"{words} {bound:g}" for words, bound in ends if bound is not None)


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of claims/."""

    says: str
    page: str
    refuted_by: str
    records: RecordSelection
    holds: ClaimCondition
    against: RecordSelection | None = None
    control: RecordSelection | None = None
    scope: str | None = None
    level: Level | None = None
    again: str | None = None


def load(path: Path) -> Claim:
    """Read a claim; what is missing, misspelt or of the wrong type is refused by name."""
    try:
        claim = msgspec.convert(tomllib.loads(path.read_text()), Claim)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}; give the file of a claim") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not a claim: {error}") from error
    for chosen in (claim.records, claim.against, claim.control):
        if chosen and Path(chosen.evidence).name != chosen.evidence:
            raise BadInput(f"{path}: evidence = {chosen.evidence!r} is no name of a folder there")
    bounds = [b for b in (claim.holds.at_least, claim.holds.at_most) if b is not None]
    if not any(isfinite(bound) for bound in bounds):
        raise BadInput(f"{path}: [holds] needs at_least or at_most; else nothing could refute it")
    if not re.fullmatch(r"-?[\d,]+(\.\d+)?", claim.holds.shown):
        raise BadInput(
            f"{path}: shown = {claim.holds.shown!r} is no plain number such as '1,234.5'"
        )
    return claim


def select(chosen: RecordSelection, records: Sequence[Record]) -> Record:
    """The one record that a claim rests on."""
    selected = [record for record in records if _matches(record, chosen.where)]
    if len(selected) != 1:
        raise BadInput(
            f"{chosen.where} selects {len(selected)} records of {chosen.evidence}; "
            "wanted exactly one"
        )
    return selected[0]


def statistic(claim: Claim, record: Record) -> float:
    """The number of a record that the claim is about."""
    if claim.holds.statistic == "value":
        if record.value is None:
            raise BadInput(f"{record.metric} has no value: {record.reason}")
        return record.value
    if not record.samples:
        raise BadInput(f"{record.metric} of {record.subject!r} has no samples")
    return STATISTICS[claim.holds.statistic](record.samples)


def _matches(record: Record, where: dict[str, str]) -> bool:
    return all(getattr(record, name, None) == value for name, value in where.items())
