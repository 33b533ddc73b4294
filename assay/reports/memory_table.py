"""The memory of a bench: what was measured, the parts that explain it, and what none explains."""

from collections.abc import Sequence

from assay.reports.bench_table import said_once, size
from assay.reports.numerals import DASH, number, size_in_bytes
from assay.reports.speed_rows import Row
from assay.reports.table import Entry, Table, shorten_workloads

TOTALS = {"forward_peak_bytes": "forward", "training_peak_bytes": "both"}
UNEXPLAINED = ".unexplained"
_NOTE = (
    "Peaks are above the inputs. Parts come from formulas; parts and what is unexplained add up to "
    "the measured peak, exactly. Saved is what forward keeps for backward. Fragmentation is what "
    "the allocator reserved over what was in use at the peak."
)


def memory_table(rows: Sequence[Row]) -> Table | None:
    """A row for each subject and workload; None where no memory is on record."""
    if not any(metric in row.records for row in rows for metric in TOTALS):
        return None
    columns = {}
    for total, name in TOTALS.items():
        columns[f"peak {name}"] = lambda row, total=total: size(row, total)
        columns[f"its parts ({name})"] = lambda row, total=total: _parts(row, total)
        columns[f"unexplained ({name})"] = lambda row, total=total: _unexplained(row, total)
    columns["saved"] = lambda row: size(row, "saved_bytes")
    columns["reserved"] = lambda row: size(row, "reserved_peak_bytes")
    columns["fragmentation"] = _fragmentation
    columns["K and V"] = lambda row: size(row, "kv_cache_bytes")
    cells = [[entry(row) for entry in columns.values()] for row in rows]
    kept = [i for i in range(len(columns)) if any(_known(line[i]) for line in cells)]
    return shorten_workloads(
        Table(
            title="Memory" if rows[0].stage == "bench" else f"Memory of {rows[0].stage}",
            columns=("workload", "subject", *(list(columns)[i] for i in kept)),
            rows=tuple(
                (row.workload.name, row.subject, *said_once([line[i] for i in kept]))
                for row, line in zip(rows, cells, strict=True)
            ),
            note=_NOTE,
            spare=(
                "its parts (forward)",
                "its parts (both)",
                "reserved",
                "unexplained (both)",
                "K and V",
            ),
        )
    )


def parts(row: Row, total: str) -> dict[str, float]:
    """The explained parts of a peak, the largest first."""
    found = {
        metric.removeprefix(f"{total}."): value
        for metric in row.records
        if metric.startswith(f"{total}.") and not metric.endswith(UNEXPLAINED)
        if (value := row.value(metric)) is not None
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _parts(row: Row, total: str) -> Entry:
    found = parts(row, total)
    if not found:
        return Entry(text=DASH) if row.value(total) is None else Entry(text="none known")
    shown = [f"{name} {size_in_bytes(int(value))}" for name, value in found.items() if value]
    return Entry(text=", ".join(shown) or "nothing")


def _unexplained(row: Row, total: str) -> Entry:
    value, whole = row.value(f"{total}{UNEXPLAINED}"), row.value(total)
    if value is None:
        return Entry(text=DASH) if whole is None else row.absent(f"{total}{UNEXPLAINED}")
    share = f"{100 * value / whole:.0f} %" if whole else ""
    sign = "-" if value < 0 else ""
    return Entry(text=sign + size_in_bytes(abs(int(value))), detail=share, value=value)


def _fragmentation(row: Row) -> Entry:
    value = row.value("fragmentation")
    if value is None:
        return row.absent("fragmentation")
    return Entry(text=number(value), value=value)


def _known(entry: Entry) -> bool:
    return entry.value is not None or (entry.text not in (DASH, "none known") and not entry.tone)
