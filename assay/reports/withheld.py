"""No speed leaves without a passed check: what was timed and not shown to be right is taken out.

Bench refuses to time such a subject, so this finds nothing in a sound run. It is the last lock: all
that is told of a run is made from what comes out of here.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from assay.records.schema import Record
from assay.records.verdicts import is_verdict, is_wrong
from assay.reports.contents import Contents

WITHHELD = "speed withheld"  # how the reason of such a record begins
CHECKED = ("bench", "layers")  # the stages whose speeds need a passed check of the same workload
_SPEED_UNITS = ("ms",)


def withhold(records: Sequence[Record]) -> list[Record]:
    """The records in their order, a speed without a passed check as refused, with the reason."""
    suite = {r.subject: r for r in reversed(records) if r.stage == "suite" and is_wrong(r)}
    checks: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if is_verdict(record) and record.workload:
            checks.setdefault((record.subject, record.workload.name), []).append(record)
    return [_without_speed(r, why) if (why := _why(r, suite, checks)) else r for r in records]


def proven(contents: Contents) -> Contents:
    """A run without the speeds that may not be told."""
    kept: dict[str, list[Record]] = {stage.name: [] for stage in contents.stages}
    for record in withhold(contents.records):
        kept[record.stage].append(record)
    stages = (replace(stage, records=tuple(kept[stage.name])) for stage in contents.stages)
    return replace(contents, stages=tuple(stages))


def _why(
    record: Record, suite: dict[str, Record], checks: dict[tuple[str, str], list[Record]]
) -> str:
    """Why this is a speed that may not be told; empty where it is not, or may."""
    if record.unit not in _SPEED_UNITS or record.value is None or not record.workload:
        return ""
    if record.stage in ("suite", "check", "host"):
        return ""
    broken = suite.get(record.subject)
    if broken:
        return f"it fails {broken.metric}: {broken.reason}"
    found = checks.get((record.subject, record.workload.name), [])
    wrong = next((check for check in found if is_wrong(check)), None)
    if wrong:
        return f"its check on this workload is {wrong.status}: {wrong.reason}"
    if record.stage in CHECKED and not any(check.status == "ok" for check in found):
        return "no check of it on this workload has passed"
    return ""


def _without_speed(record: Record, why: str) -> Record:
    return msgspec.structs.replace(
        record, value=None, samples=[], status="refused", reason=f"{WITHHELD}: {why}"
    )
