"""Figures that were measured again: confirmed, not confirmed, or not comparable.

A time of another machine says nothing of this one, so there only numbers without a unit of
measurement (ratios, shares, counts) are compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from assay.errors import BadInput
from assay.records.schema import Record
from assay.verify import evidence
from assay.verify.claim import Claim, select, statistic

Word = Literal["confirmed", "not confirmed", "not comparable", "not tested"]
_WITHOUT_UNIT = ("", "ratio", "share", "count", "elements")


@dataclass(frozen=True, kw_only=True)
class RepeatedFigure:
    """A figure beside the one that was measured again."""

    word: Word
    reason: str
    before: float | None = None
    again: float | None = None


def judge(claim: Claim, records: Sequence[Record]) -> RepeatedFigure:
    """Hold the bounds of a claim against records that the same command has just left."""
    try:
        kept = _figure(claim, evidence.load(claim.records.evidence))
        new = _figure(claim, records)
    except BadInput as error:
        return RepeatedFigure(word="not tested", reason=str(error))
    before, again = kept[1], new[1]
    measured = {"before": before, "again": again}
    if kept[0].host != new[0].host and new[0].unit not in _WITHOUT_UNIT:
        reason = f"{new[0].unit} of another machine"
        return RepeatedFigure(word="not comparable", reason=reason, **measured)
    word = "confirmed" if claim.holds.allows(again) else "not confirmed"
    return RepeatedFigure(word=word, reason=claim.holds.bounds, **measured)


def _figure(claim: Claim, records: Sequence[Record]) -> tuple[Record, float]:
    record = select(claim.records, records)
    value = statistic(claim, record)
    if claim.against is None:
        return record, value
    return record, value / statistic(claim, select(claim.against, records))
