"""Parameters of KVSplice codecs as a table: what stands in a checkpoint, with the verdicts."""

from collections.abc import Mapping, Sequence
from typing import Any

from assay.reports.numerals import DASH
from assay.reports.table import Entry, Table, tabulate

Row = Mapping[str, Any]
_TONES = {"learning": "ok", "stuck": "unfinished", "not finite": "failed"}
_MOST_LISTED = 8  # dimensions; the rows as JSON have them all


def parameter_table(title: str, rows: Sequence[Row], *, below: float, note: str) -> Table:
    """A row for each codec; `below` is the scale under which dimensions are prune candidates."""
    return tabulate(
        title,
        rows,
        {
            "layer": lambda row: str(row["layer"]),
            "latent": lambda row: row["latent"],
            "scale": lambda row: _spread(row, "scale"),
            "scale moved": lambda row: _number(row["scale_moved"]),
            "shift": lambda row: _spread(row, "shift"),
            "shift moved": lambda row: _number(row["shift_moved"]),
            "maps moved": lambda row: _number(row["maps_moved"]),
            f"below {below}": _prunable,
            "verdict": lambda row: Entry(
                text=row["verdict"], hint=row["reason"], tone=_TONES[row["verdict"]]
            ),
        },
        note=note,
        spare=("maps moved",),
    )


def _spread(row: Row, name: str) -> Entry | str:
    mean = row[f"{name}_mean"]
    if mean is None:
        return DASH
    low, high, deviation = (row[f"{name}_{word}"] for word in ("min", "max", "deviation"))
    return Entry(
        text=f"{mean:.4f}", detail=f"{low:.3f} to {high:.3f}, ±{deviation:.3f}", value=mean
    )


def _number(value: float | None) -> Entry | str:
    return DASH if value is None else Entry(text=f"{value:.4f}", value=value)


def _prunable(row: Row) -> str:
    listed = row["prunable"]
    if not listed:
        return "none"
    more = f" and {len(listed) - _MOST_LISTED} more" if len(listed) > _MOST_LISTED else ""
    of = f"{len(listed)} of {row['dimensions']}"
    return f"{of}: {', '.join(map(str, listed[:_MOST_LISTED]))}{more}"
