"""Speeds without a passed check, taken out before anything is reported.

Bench refuses to time such a subject, so this finds nothing in a sound run. It is the last
safeguard: a report is made only from what passes here.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from assay.laws.curves import MEASURING
from assay.records.schema import Record
from assay.records.verdicts import CHECKING, SUITES, is_verdict, is_wrong
from assay.reports.contents import Contents

WITHHELD = "speed withheld"  # the beginning of such a record's reason
_SPEED_UNITS = ("ms",)


def withhold_unchecked(contents: Contents) -> Contents:
    """A run without the speeds that no passed check backs."""
    kept: dict[str, list[Record]] = {stage.name: [] for stage in contents.stages}
    for record in refuse_unchecked(contents.records):
        kept[record.stage].append(record)
    stages = (replace(stage, records=tuple(kept[stage.name])) for stage in contents.stages)
    return replace(contents, stages=tuple(stages))


def refuse_unchecked(records: Sequence[Record]) -> list[Record]:
    """The records in their order, a speed without a passed check as refused, with the reason."""
    suite = {r.subject: r for r in reversed(records) if r.stage in SUITES and is_wrong(r)}
    checks: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if is_verdict(record) and record.workload:
            checks.setdefault((record.subject, record.workload.name), []).append(record)
    return [_refuse(r, why) if (why := _reason(r, suite, checks)) else r for r in records]


def _reason(
    record: Record, suite: dict[str, Record], checks: dict[tuple[str, str], list[Record]]
) -> str:
    """Reason to withhold a record; empty where it is no speed, or was checked."""
    if record.unit not in _SPEED_UNITS or record.value is None or not record.workload:
        return ""
    if record.stage in (*CHECKING, "host"):
        return ""
    broken = suite.get(record.subject)
    if broken:
        return f"it fails {broken.metric}: {broken.reason}"
    mine = checks.get((record.subject, record.workload.name), [])
    wrong = next((check for check in mine if is_wrong(check)), None)
    if wrong:
        return f"its check on this workload has status {wrong.status}: {wrong.reason}"
    if record.stage in MEASURING and not any(check.status == "ok" for check in mine):
        return "it has passed no check on this workload"
    return ""


def _refuse(record: Record, why: str) -> Record:
    return msgspec.structs.replace(
        record, value=None, samples=[], status="refused", reason=f"{WITHHELD}: {why}"
    )
