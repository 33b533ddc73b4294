"""Cells that an earlier run measured, in place of measuring them again.

Ceilings of a machine, readings of its instruments and verdicts on cases of a suite's own are the
same a minute later, and take most of the time of a short run. Such a cell is taken over whole where
its fingerprint (code, settings, packages, environment) and its host are the same, all of it went
well, and it is not older than its stage allows. Its records keep the time at which they were
measured, and a remark names the run. Ceilings of a busy machine are taken over only while it still
is busy.
"""

from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec

from assay.errors import BadInput
from assay.instruments import machine_load
from assay.records import run as runs
from assay.records.identity import current
from assay.records.run import RunFolder
from assay.records.schema import CELL_SECONDS, MACHINE_LOAD, REUSED, Record, Stamp
from assay.studies.plan import PlannedCell, PlannedStage

_SOUND = frozenset(("ok", "unsupported"))


def measured_before(
    stage: PlannedStage, planned: PlannedCell, folder: RunFolder, hosts: Collection[str]
) -> list[Record]:
    """All records of a cell in the newest run beside `folder` that may stand in for it; none where
    there is no such run."""
    oldest = datetime.now(UTC) - timedelta(hours=stage.reusable_h)
    for other in runs.newest_first(folder.path.parent.parent):
        if other.path == folder.path or other.path.name < f"{oldest:%Y%m%dT%H%M%S}":
            continue
        with suppress(
            BadInput, OSError, ValueError, TypeError
        ):  # what cannot be read has nothing to give
            done = runs.read_done(other, stage.name)
            if done is None or done.cells.get(planned.cell.name) != planned.fingerprint:
                continue
            records = [
                record
                for record in current(runs.stage_records(other, stage.name))
                if record.cell == planned.cell.name
            ]
            if _may_stand_in(records, planned, hosts, oldest):
                return records
    return []


def taken_over(records: list[Record], stamp: Stamp) -> list[Record]:
    """The records of another run as those of this one, with a remark, and an end that took no
    time."""
    *measured, end = records
    if not remark_on(records):
        reason = f"measured at {end.time} by run {end.run} in {end.value or 0.0:.1f} s"
        measured.append(msgspec.structs.replace(end, metric=REUSED, value=None, reason=reason))
    place = msgspec.structs.asdict(stamp) | {"sequence": 0, "closes": 0}
    end = msgspec.structs.replace(end, value=0.0)
    return [msgspec.structs.replace(record, **place) for record in (*measured, end)]


def remark_on(records: list[Record]) -> str:
    """The origin of a cell's records in words; empty where they were measured here."""
    return next((record.reason or "" for record in records if record.metric == REUSED), "")


def _may_stand_in(
    records: list[Record], planned: PlannedCell, hosts: Collection[str], oldest: datetime
) -> bool:
    if len(records) < 2 or records[-1].metric != CELL_SECONDS:
        return False
    alike = all(r.fingerprint == planned.fingerprint and r.host in hosts for r in records)
    sound = all(record.status in _SOUND for record in records)
    young = min(datetime.fromisoformat(record.time) for record in records) >= oldest
    was_busy = any(record.metric == MACHINE_LOAD for record in records)
    return (
        alike
        and sound
        and young
        and (not was_busy or machine_load.is_busy(machine_load.read().average))
    )
