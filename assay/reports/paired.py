"""A speed as a ratio to a named peer: per-round ratios of subjects measured side by side.

Rounds of one cell are interleaved, so a disturbance hits all its subjects alike and falls out of
the ratio. Samples of different cells are never paired.
"""

from collections.abc import Sequence
from statistics import median

from assay.records.schema import Record
from assay.reports.numerals import DASH, number
from assay.reports.summary import interval_of_median
from assay.reports.tables import Entry, Table, place_of

_NOTE = (
    "Median of the per-round ratios subject / against, with a 95 % bootstrap interval. "
    "An interval that holds 1 shows no difference."
)


def paired(stage: str, records: Sequence[Record]) -> Table | None:
    """Each subject against the first of its cell; None where nothing was measured in pairs."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        if record.stage == stage and record.workload and len(record.samples) > 1:
            key = (record.cell, record.workload.name, record.metric, record.unit)
            groups.setdefault(key, []).append(record)
    rows = [
        _row(record, found[0])
        for found in groups.values()
        for record in found[1:]
        if record.subject != found[0].subject
    ]
    if not rows:
        return None
    columns = ("workload", "metric", "subject", "against", "ratio", "95 % interval", "rounds")
    return Table(title=f"Paired ratios of {stage}", columns=columns, rows=tuple(rows), note=_NOTE)


def _row(record: Record, peer: Record) -> tuple[Entry | str, ...]:
    names = (place_of(record), record.metric, record.subject, peer.subject)
    refusal = _why_not(record, peer)
    if refusal:
        absent = Entry(text=DASH, hint=refusal)
        return (*names, absent, absent, absent)
    ratios = [ours / theirs for ours, theirs in zip(record.samples, peer.samples, strict=True)]
    low, high = interval_of_median(ratios)
    middle = median(ratios)
    return (
        *names,
        Entry(text=number(middle), value=middle),
        Entry(text=f"{number(low)}–{number(high)}", value=low),
        Entry(text=f"{len(ratios):,}", value=len(ratios)),
    )


def _why_not(record: Record, peer: Record) -> str:
    for each in (record, peer):
        if each.status != "ok":
            return f"{each.subject} is {each.status}: {each.reason}"
    apart = [each.subject for each in (record, peer) if each.alone]
    if apart:
        return f"not paired: {' and '.join(apart)} ran alone, after a crash in this cell"
    if len(record.samples) != len(peer.samples):
        return (
            f"not paired: {record.subject} has {len(record.samples)} rounds, "
            f"{peer.subject} has {len(peer.samples)}"
        )
    if not all(peer.samples):
        return f"{peer.subject} has a sample of zero, by which nothing can be divided"
    return ""
