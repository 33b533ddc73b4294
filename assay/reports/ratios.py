"""Each subject against the baseline, the first subject that a study names, round by round.

Records do not give the order of the study, but the measured subjects of every cell follow it, so
the first is the one that no other ever comes before. Samples of different cells are never paired.
"""

from collections.abc import Sequence

from assay.laws.byte_bound import REFUSED, WITHHELD, bounded
from assay.laws.pairs import PAIRED_METRICS, Ratio, ratio
from assay.records.schema import Record
from assay.reports.numerals import DASH, number
from assay.reports.table import Entry, Table, workload_or_cell

_NOTE = (
    "Median of the per-round ratios subject / against, with a 95 % bootstrap interval. "
    "An interval that contains 1 shows no difference."
)


def baseline(records: Sequence[Record], metric: str) -> str | None:
    """The first subject among the records of one stage; None where nothing was measured."""
    return next(iter(subject_order(records, metric)), None)


def subject_order(records: Sequence[Record], metric: str) -> list[str]:
    """The measured subjects of one stage in the study's order, as far as cells tell it."""
    cells: dict[str, list[str]] = {}
    for record in records:
        if record.metric == metric and record.value is not None and record.subject:
            cells.setdefault(record.cell, []).append(record.subject)
    waiting = list(dict.fromkeys(subject for cell in cells.values() for subject in cell))
    before = {
        subject: {s for cell in cells.values() if subject in cell for s in _ahead(cell, subject)}
        for subject in waiting
    }
    ordered: list[str] = []
    while waiting:
        free = (s for s in waiting if not before[s] - set(ordered) - {s})
        # Cells that contradict each other (runs joined by hand) fall back on the first seen.
        ordered.append(next(free, waiting[0]))
        waiting.remove(ordered[-1])
    return ordered


def ratios_to_baseline(
    records: Sequence[Record], metric: str, *, run: Sequence[Record] | None = None
) -> dict[int, Ratio]:
    """The ratio of each record of `metric` of one stage to the baseline's of its cell, by `id`.

    The baseline is the same in every cell: where it has no time, there is no ratio. Of decode
    kernels there is none that the bytes of their caches do not explain (byte_bound.py), for which
    `run` has the records of all stages.
    """
    first = baseline(records, metric)
    if first is None:
        return {}
    timed = [r for r in records if r.metric == metric and r.subject and r.workload]
    peers = {r.cell: r for r in reversed(timed) if r.subject == first}
    ratios = {}
    for record in timed:
        if record.subject == first or record.value is None:
            continue
        if peer := peers.get(record.cell):
            ratios[id(record)] = ratio(record, peer)
        else:
            reason = f"{first} was not timed in this cell"
            ratios[id(record)] = Ratio(subject=record.subject, against=first, reason=reason)
    return bounded(ratios, timed, records if run is None else run)


def ratio_entry(ratio: Ratio) -> Entry:
    """A ratio with its interval; in its place the word for one that is withheld or refused."""
    if ratio.value is None:
        word = ratio.reason.partition(":")[0]
        kept = word in (WITHHELD, REFUSED)
        return Entry(text=word if kept else DASH, hint=ratio.reason, tone=REFUSED if kept else "")
    detail = ""
    if ratio.low is not None and ratio.high is not None:
        detail = f"{_short(ratio.low)}–{_short(ratio.high)}"
    text, value = _short(ratio.value), ratio.value
    return Entry(text=text, detail=detail, value=value, hint=ratio.reason, unit="ratio")


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def ratio_table(stage: str, records: Sequence[Record]) -> Table | None:
    """Each subject of a stage against the baseline; None where nothing was measured in pairs."""
    run, records = records, [record for record in records if record.stage == stage]
    ratios: dict[int, Ratio] = {}
    for metric in PAIRED_METRICS:
        ratios |= ratios_to_baseline(records, metric, run=run)
    rows = tuple(_row(record, ratios[id(record)]) for record in records if id(record) in ratios)
    if not rows:
        return None
    columns = ("workload", "metric", "subject", "against", "ratio", "95 % interval", "rounds")
    return Table(title=f"Paired ratios of {stage}", columns=columns, rows=rows, note=_NOTE)


def _row(record: Record, ratio: Ratio) -> tuple[Entry | str, ...]:
    names = (workload_or_cell(record), record.metric, record.subject, ratio.against)
    absent = Entry(text=DASH, hint=ratio.reason)
    if ratio.value is None:
        return (*names, absent, absent, absent)
    interval = absent
    if ratio.low is not None and ratio.high is not None:
        interval = Entry(text=f"{number(ratio.low)}–{number(ratio.high)}", value=ratio.low)
    return (
        *names,
        Entry(text=number(ratio.value), value=ratio.value),
        interval,
        Entry(text=f"{ratio.rounds:,}", value=ratio.rounds),
    )


def _ahead(cell: list[str], subject: str) -> list[str]:
    return cell[: cell.index(subject)]
