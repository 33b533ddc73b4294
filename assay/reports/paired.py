"""A speed as a ratio to a named peer: per-round ratios of subjects measured side by side.

Rounds of one cell are interleaved, so a disturbance hits all its subjects alike and falls out of
the ratio. Samples of different cells are never paired.
"""

from collections.abc import Sequence

from assay.laws.pairs import Ratio, ratio
from assay.records.schema import Record
from assay.reports.baseline import baseline
from assay.reports.numerals import DASH, number
from assay.reports.table import Entry, Table, workload_or_cell

# Metrics whose samples come from rounds. Others have samples too, which pair with nothing.
ROUNDS = ("latency_ms", "backward_ms", "training_ms")

_NOTE = (
    "Median of the per-round ratios subject / against, with a 95 % bootstrap interval. "
    "An interval that holds 1 shows no difference."
)


def against_first(records: Sequence[Record], metric: str) -> dict[int, Ratio]:
    """The ratio of each record of `metric` of one stage to its cell's first subject, by `id`.

    The first subject is the same in every cell: where it has no time, there is no ratio.
    """
    first = baseline(records, metric)
    mine = [r for r in records if r.metric == metric and r.subject and r.workload]
    peers = {r.cell: r for r in reversed(mine) if r.subject == first}
    found = {}
    for record in mine:
        if first is None or record.subject == first or record.value is None:
            continue
        peer = peers.get(record.cell)
        absent = Ratio(
            subject=record.subject, against=first, reason=f"{first} was not timed in this cell"
        )
        found[id(record)] = ratio(record, peer) if peer else absent
    return found


def paired(stage: str, records: Sequence[Record]) -> Table | None:
    """Each subject against the first; None where nothing was measured in pairs."""
    mine = [r for r in records if r.stage == stage]
    found = {key: one for metric in ROUNDS for key, one in against_first(mine, metric).items()}
    rows = [_row(record, found[id(record)]) for record in mine if id(record) in found]
    if not rows:
        return None
    columns = ("workload", "metric", "subject", "against", "ratio", "95 % interval", "rounds")
    return Table(title=f"Paired ratios of {stage}", columns=columns, rows=tuple(rows), note=_NOTE)


def _row(record: Record, found: Ratio) -> tuple[Entry | str, ...]:
    names = (workload_or_cell(record), record.metric, record.subject, found.against)
    absent = Entry(text=DASH, hint=found.reason)
    if found.value is None:
        return (*names, absent, absent, absent)
    interval = absent
    if found.low is not None and found.high is not None:
        interval = Entry(text=f"{number(found.low)}–{number(found.high)}", value=found.low)
    return (
        *names,
        Entry(text=number(found.value), value=found.value),
        interval,
        Entry(text=f"{found.rounds:,}", value=found.rounds),
    )
