"""Incremental decode through caches: time of a token, bytes and quality side by side."""

from collections.abc import Sequence
from dataclasses import replace

from assay.laws.pairs import interval_of_median
from assay.records.schema import Record
from assay.reports.cache_rows import DENSE, CacheRow, rows_by_cell, workload_name
from assay.reports.numerals import DASH
from assay.reports.table import Entry, Table, tabulate
from assay.reports.tables.cache_quality import (
    band_entry,
    dense_dtype,
    difference_entry,
    share_entry,
)

STAGES = ("cache_decode",)
BUDGETS = (0.8, 0.55, 0.3)  # of the dense cache's bytes
_BOTH = ("cache_quality", "cache_decode")
_NOTE = (
    "One sequence, a token at a time behind the same prompt, layouts in turn. The ratio is the "
    "median over steps of a layout's time to the dense cache's in the same step, with a 95 % "
    "bootstrap interval. Read by torch, an encoded cache is decoded whole in each step, and its "
    "time says nothing of kernels that read fewer bytes. Bytes are those of the tensors at the "
    "end; dense is {}."
)


def _ratio(row: CacheRow) -> Entry:
    own, dense = row.own.get("cache_token_s"), row.dense.get("cache_token_s")
    if own is None or dense is None or not own.samples or row.layout == DENSE:
        hint = (
            "the others are held against it" if row.layout == DENSE else row.reason("cache_token_s")
        )
        return Entry(text=DASH, hint=hint)
    ratios = sorted(a / b for a, b in zip(own.samples, dense.samples, strict=True))
    low, high = interval_of_median(tuple(ratios))
    middle = ratios[len(ratios) // 2]
    return Entry(text=f"{middle:.2f}", value=middle, detail=f"{low:.2f}–{high:.2f}")


def _bytes(row: CacheRow) -> Entry:
    """Bytes of the tensors, and those of their memory where it has room for more."""
    entry, record = row.entry("cache_kept_bytes", "{:,.0f}"), row.own.get("cache_kept_bytes")
    allocated = (record.data or {}).get("allocated_bytes") if record else None
    beyond = entry.value is not None and allocated and allocated != entry.value
    return replace(entry, detail=f"{allocated:,} allocated") if beyond else entry


def _rate(row: CacheRow) -> Entry:
    seconds = row.value("cache_token_s")
    if not seconds:
        return Entry(text=DASH, hint=row.reason("cache_token_s"))
    return Entry(text=f"{1 / seconds:.1f}", value=1 / seconds)


def _way(row: CacheRow) -> Entry:
    """The way that the steps read the cache, as the source of their time says it."""
    record = row.own.get("cache_token_s")
    source = (record.source or "") if record else ""
    _, _, way = source.partition("; ")
    short = "by kernel" if way.startswith("read as kept") else "by torch" if way else DASH
    return Entry(text=short, hint=way)


_COLUMNS = {
    "model": lambda row: row.model,
    "layout": lambda row: row.layout,
    "ms a token": lambda row: row.entry("cache_token_s", "{:.3g}", 1e3),
    "of dense time": _ratio,
    "tokens/s": _rate,
    "read": _way,
    "bytes": _bytes,
    "of dense bytes": lambda row: share_entry(row, "cache_kept_bytes"),
    "loss above dense": difference_entry,
    "band": band_entry,
}


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """A table of all models' layouts, and one of the best of them within each budget."""
    cells = rows_by_cell(records, _BOTH)
    rows = [row for rows in cells.values() for row in rows]
    if not any("cache_token_s" in row.own for row in rows):
        return []
    _, _, read = workload_name(rows, "cache_token_s").partition(", ")
    title = f"Decode through the cache: {read}" if read else "Decode through the cache"
    known = any(_way(row).hint for row in rows)  # older records do not say it
    columns = {name: column for name, column in _COLUMNS.items() if known or column is not _way}
    table = tabulate(title, rows, columns, note=_NOTE.format(dense_dtype(rows)))
    return [table, *(best for rows in cells.values() for best in _within_budgets(rows))]


def _within_budgets(rows: Sequence[CacheRow]) -> list[Table]:
    """The layout with the least loss among those within each budget, where losses are known."""
    known = [row for row in rows if row.value("cache_nll") is not None]
    best: list[tuple[Entry | str, ...]] = []
    for budget in BUDGETS:
        within = [row for row in known if (row.share("cache_bytes_per_token") or 2.0) <= budget]
        sound = [row for row in within if row.band != "catastrophic"]
        if within and not sound:
            best.append((f"{budget:.2f}", f"{len(within)}", "none: all catastrophic", *[DASH] * 3))
        elif within:
            chosen = min(sound, key=lambda row: row.value("cache_nll") or 0.0)
            entries = (share_entry(chosen), difference_entry(chosen), band_entry(chosen))
            best.append((f"{budget:.2f}", f"{len(within)}", chosen.layout, *entries))
    columns = ("budget of dense", "layouts within", "least loss", "of dense", "above dense", "band")
    title = f"Best within a budget: {rows[0].model}"
    note = (
        f"Dense is {dense_dtype(rows)}. Catastrophic layouts are left out; two whose intervals "
        "overlap cannot be told apart."
    )
    return [Table(title=title, columns=columns, rows=tuple(best), note=note)] if best else []
