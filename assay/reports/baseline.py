"""Which subject the others are held against: the first that a study names.

Records do not say the order that was asked for, but the measured subjects of every cell follow it,
so the first is the one that no other ever comes before.
"""

from collections.abc import Sequence

from assay.records.schema import Record


def baseline(records: Sequence[Record], metric: str) -> str | None:
    """The first subject among the records of one stage; None where nothing was measured."""
    found = order(records, metric)
    return found[0] if found else None


def order(records: Sequence[Record], metric: str) -> list[str]:
    """The measured subjects of one stage as the study names them, as far as cells tell."""
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


def _ahead(cell: list[str], subject: str) -> list[str]:
    return cell[: cell.index(subject)]
