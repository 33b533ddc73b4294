"""Figures of caches from the rows of `assay kv verify`: bytes over tokens, and shares of the first.

Rows of different dtypes are refused: bytes in single precision beside others in half make up a
compression, or hide one.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay import host
from assay.errors import BadInput, CannotRunHere
from assay.installation import how_to_add
from assay.plugins import installed
from assay.records.durable import write_atomically
from assay.reports import printed, style
from assay.reports.chart import Chart, ChartGroup, Series
from assay.reports.row_files import read_rows, write_rows
from assay.reports.run_tables import commit_text

Row = Mapping[str, Any]
ROWS = "cache_bytes.jsonl"
_MIB = 1 << 20


def require_print() -> None:
    """Refuse where figures cannot be printed, before anything is measured for them."""
    if not installed("matplotlib"):
        raise CannotRunHere(
            "matplotlib is not installed, which figures are printed with: install it with "
            f"`{how_to_add('report')}`, or leave out --out"
        )


def write_caches(folder: Path, rows: Sequence[Row]) -> None:
    """Write the rows, with the commit and the torch that made them, and figures of them at 300 DPI:
    cache_bytes.jsonl, cache_bytes.png and cache_shares.png."""
    here = host.inspect()
    stamp = {
        "commit": commit_text(here.commit, here.dirty), "torch": here.versions.get("torch"),
    }  # fmt: skip
    write_rows(folder / ROWS, [{**row, **stamp} for row in rows])
    draw(folder)


def draw(folder: Path) -> None:
    """Draw the figures of the rows in a folder."""
    rows = read_rows(folder / ROWS)
    source = f"{ROWS}, commit {rows[0]['commit']}"
    for chart in (growth_chart(rows), share_chart(rows)):
        colours = style.colours(series.subject for series in chart.series)
        content = printed.png(ChartGroup(charts=(chart,)), colours, source=source)
        write_atomically(folder / f"{chart.file_stem}.png", content)


def growth_chart(rows: Sequence[Row]) -> Chart:
    """Bytes over tokens: measured points, and the formula at all lengths of the rows."""
    series = []
    for name, own in _by_cache(rows).items():
        own = sorted(own, key=lambda row: row["tokens"])
        for kind in ("formula", "measured"):
            drawn = [row for row in own if row[kind] is not None]
            x = tuple(row["tokens"] for row in drawn)
            y = tuple(row[kind] / _MIB for row in drawn)
            series.append(Series(subject=name, variant=kind, x=x, y=y))
    return Chart(
        name="cache_bytes",
        title=f"Cache of one sequence, {_dtype(rows)}",
        x_label="tokens",
        y_label="cache (MiB)",
        series=tuple(series),
        log_x=True,
        log_y=True,
    )


def share_chart(rows: Sequence[Row]) -> Chart:
    """Measured bytes at the longest measured length, as shares of the first row's."""
    measured = [row for row in rows if row["measured"] is not None]
    longest = max(row["tokens"] for row in measured)
    shares = {
        name: own[0]["measured"]
        for name, own in _by_cache([r for r in measured if r["tokens"] == longest]).items()
    }
    first, whole = next(iter(shares.items()))
    return Chart(
        name="cache_shares",
        title=f"Share of the cache of {first}, {longest:,} tokens, {_dtype(rows)}",
        x_label="",
        y_label=f"share of the bytes of {first}",
        series=tuple(
            Series(subject=name, x=(name,), y=(size / whole,)) for name, size in shares.items()
        ),
        bars=True,
    )


def _by_cache(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by model and layout, as they came."""
    caches: dict[str, list[Row]] = {}
    for row in rows:
        caches.setdefault(f"{row['model']} {row['layout']}", []).append(row)
    return caches


def _dtype(rows: Sequence[Row]) -> str:
    dtypes = sorted({row["dtype"] for row in rows})
    if len(dtypes) != 1:
        raise BadInput(
            f"these rows are of {' and '.join(dtypes)}; a figure compares caches of one dtype: "
            "draw one for each"
        )
    return dtypes[0]
