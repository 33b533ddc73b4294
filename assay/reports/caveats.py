"""What a sceptic would object to, found in the records and said before the numbers."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from assay.records.schema import Record
from assay.reports.baseline import baseline
from assay.reports.numerals import size_in_bytes
from assay.reports.paired import ROUNDS
from assay.reports.speed_rows import FORWARD, Row
from assay.reports.withheld import WITHHELD

CLOCK = "sm_clock_mhz"
_MOST_DRIFT = 0.05
_MOST_NAMED = 4


def caveats(rows: Sequence[Row], records: Sequence[Record], config: Mapping[str, str]) -> list[str]:
    """Lines about one stage, each kind of objection once."""
    if not rows:
        return []
    mine = [record for record in records if record.stage == rows[0].stage]
    return [
        *_withheld(mine),
        *_suspects(rows),
        *_copies(rows, baseline(mine, FORWARD)),
        *_drift(mine),
        *_few_samples(mine, config),
    ]


def _withheld(records: Sequence[Record]) -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for record in records:
        if (record.reason or "").startswith(WITHHELD):
            found.setdefault(f"{record.subject}: {record.reason}", []).append(_workload(record))
    for line, places in found.items():
        yield f"{line} ({_named(places)})"


def _suspects(rows: Sequence[Row]) -> Iterator[str]:
    found = [
        f"{row.subject}, {rate.metric} at {row.workload.name}: {rate.suspect}"
        for row in rows
        for rate in row.rates.values()
        if rate.suspect
    ]
    if found:
        yield f"faster than this machine can be: {_named(found, '; ')}"


def _copies(rows: Sequence[Row], first: str | None) -> Iterator[str]:
    copied = {
        row.workload.name: value
        for row in rows
        if row.subject == first and (value := row.value("input_copy_bytes"))
    }
    if copied:
        most = size_in_bytes(int(max(copied.values())))
        yield (
            f"baseline {first} copies up to {most} of q, k or v in each timed call "
            f"({_named(list(copied))}): ratios against it are not fair"
        )


def _drift(records: Sequence[Record]) -> Iterator[str]:
    drifts = {}
    for record in records:
        clocked = record.metric.rpartition(".")[2] == CLOCK
        if clocked and record.samples and median(record.samples):
            spread = (max(record.samples) - min(record.samples)) / median(record.samples)
            if spread > _MOST_DRIFT:
                drifts[record.cell] = max(spread, drifts.get(record.cell, 0.0))
    if drifts:
        worst = max(drifts, key=lambda cell: drifts[cell])
        yield (
            f"the clock varied by more than {100 * _MOST_DRIFT:.0f} % within {len(drifts)} "
            f"cell{'s' if len(drifts) > 1 else ''}, by {100 * drifts[worst]:.0f} % in {worst}: "
            "compare ratios there, not times"
        )


def _few_samples(records: Sequence[Record], config: Mapping[str, str]) -> Iterator[str]:
    asked = config.get("ROUNDS", "")
    if not asked.isdigit():
        return
    found = [
        f"{record.subject}, {record.metric} at {_workload(record)}: {len(record.samples)}"
        for record in records
        if record.metric in ROUNDS and record.value is not None
        if len(record.samples) < int(asked)
    ]
    if found:
        yield f"fewer samples than the {asked} rounds asked for: {_named(found, '; ')}"


def _workload(record: Record) -> str:
    return record.workload.name if record.workload else record.cell


def _named(names: Sequence[str], between: str = ", ") -> str:
    """The first few, and how many more."""
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - _MOST_NAMED
    return between.join(distinct[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
