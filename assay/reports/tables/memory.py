"""Peak memory: measured, the parts that formulas explain, and the rest that none explains."""

from collections.abc import Sequence

from assay.records.schema import Record
from assay.reports.numerals import DASH, size_in_bytes
from assay.reports.speed_rows import NONE_KNOWN, Row, row_table, speed_rows
from assay.reports.table import Entry, Table, size_entry

STAGES = ("bench", "layers", "decode")
PLACE = 30
DETAIL = True
PEAKS = {"forward_peak_bytes": "forward", "training_peak_bytes": "both"}
_UNEXPLAINED = ".unexplained"
_NOTE = (
    "Peaks are above the inputs. Parts come from formulas; parts and what is unexplained add up to "
    "the measured peak, exactly. Saved is what forward keeps for backward. Workspace is "
    "what cuBLAS keeps from call to call, in no peak. Fragmentation is what the allocator reserved "
    "over what was in use at the peak."
)


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """One table with a row for each subject and workload; none where no memory is on record."""
    rows = speed_rows(stage, records)
    if not any(metric in row.records for row in rows for metric in PEAKS):
        return []
    columns = {}
    for peak, name in PEAKS.items():
        columns[f"peak {name}"] = lambda row, peak=peak: row.size(peak)
        columns[f"parts ({name})"] = lambda row, peak=peak: _parts(row, peak)
        columns[f"unexplained ({name})"] = lambda row, peak=peak: _unexplained(row, peak)
    columns["saved"] = lambda row: row.size("saved_bytes")
    columns["workspace"] = lambda row: row.size("workspace_bytes")
    columns["reserved"] = lambda row: row.size("reserved_peak_bytes")
    columns["fragmentation"] = lambda row: row.count("fragmentation")
    columns["K and V"] = lambda row: row.size("kv_cache_bytes")
    spare = ("parts (forward)", "parts (both)", "reserved", "unexplained (both)", "K and V")
    return [row_table("Memory", rows, columns, note=_NOTE, spare=spare)]


def explained_parts(row: Row, peak: str) -> dict[str, float]:
    """Bytes of the explained parts of a peak, the largest first."""
    parts = {
        metric.removeprefix(f"{peak}."): value
        for metric in row.records
        if metric.startswith(f"{peak}.") and not metric.endswith(_UNEXPLAINED)
        if (value := row.value(metric)) is not None
    }
    return dict(sorted(parts.items(), key=lambda item: -item[1]))


def _parts(row: Row, peak: str) -> Entry:
    parts = explained_parts(row, peak)
    if not parts:
        return Entry(text=DASH if row.value(peak) is None else NONE_KNOWN)
    shown = [f"{name} {size_in_bytes(int(value))}" for name, value in parts.items() if value]
    return Entry(text=", ".join(shown) or "nothing")


def _unexplained(row: Row, peak: str) -> Entry:
    value, whole = row.value(f"{peak}{_UNEXPLAINED}"), row.value(peak)
    if value is None:
        return Entry(text=DASH) if whole is None else row.absent(f"{peak}{_UNEXPLAINED}")
    share = f"{100 * value / whole:.0f} %" if whole else ""
    return size_entry(value, detail=share)
