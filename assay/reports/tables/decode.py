"""Speed of decode kernels: time, bytes a second, and ratios no larger than bytes explain."""

from collections.abc import Sequence

from assay.laws.byte_bound import CACHE_BYTES, SECOND, as_bytes_allow, least_ratio
from assay.laws.pairs import ratio
from assay.records.schema import Record
from assay.reports.numerals import DASH, number
from assay.reports.ratios import baseline, ratio_entry
from assay.reports.speed_rows import FORWARD, Row, row_table, speed_rows
from assay.reports.table import Entry, Table, percent_entry

STAGES = ("decode",)
PLACE = 10
_NOTE = (
    "Times are medians over rounds, with their quartiles. A ratio is the median of per-round "
    "ratios of time, with a 95 % bootstrap interval: below 1 is faster. GB/s are the bytes of the "
    "cache, q and the output by formula over the median time; of reading is their share of what "
    "this machine reached in the same run. Bytes explain a ratio down to that of the two caches; "
    f"what is below is withheld until the baseline's share and {SECOND} stand beside it, and "
    "refused where it is below the bytes against both. A file called dequantised writes the whole "
    "cache out first, which its bytes do not count."
)


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """One table of all kernels on all workloads, those that ended without a number among them."""
    rows = speed_rows(stage, records)
    if not rows:
        return []
    first = baseline([r for r in records if r.stage == stage], FORWARD)
    by_place = {(row.workload.name, row.subject): row for row in reversed(rows)}

    def peer(row: Row, subject: str | None) -> Row | None:
        return by_place.get((row.workload.name, subject or ""))

    columns = {
        "time (ms)": lambda row: row.time(FORWARD),
        f"over {first}": lambda row: row.over(first, FORWARD),
        "bytes explain": lambda row: _explained(row, peer(row, first)),
    }
    if first != SECOND:
        columns[f"over {SECOND}"] = lambda row: _over_second(row, peer(row, SECOND))
    columns |= {
        "GB/s": _rate,
        "of reading": _share,
        "cache": lambda row: row.size(CACHE_BYTES),
        "graph (ms)": lambda row: row.time("graph_ms"),
        "kernel": Row.kernel,
    }
    spare = ("kernel", "graph (ms)", "cache", "bytes explain")
    always = ("time (ms)", "GB/s")
    return [row_table("Speed", rows, columns, note=_NOTE, spare=spare, always=always)]


def _explained(row: Row, first: Row | None) -> Entry:
    least = least_ratio(row.value(CACHE_BYTES), first.value(CACHE_BYTES) if first else None)
    if least is None:
        return row.absent(CACHE_BYTES)
    return Entry(text=f"{least:.2f}", value=least, unit="ratio")


def _over_second(row: Row, second: Row | None) -> Entry:
    record, peer = row.records.get(FORWARD), second.records.get(FORWARD) if second else None
    if record is None or row.value(FORWARD) is None:
        return row.absent(FORWARD)
    if peer is record:
        return Entry(text="baseline")
    if second is None or peer is None or second.value(FORWARD) is None:
        return Entry(text=DASH, hint=f"{SECOND} was not timed beside it")
    least = least_ratio(row.value(CACHE_BYTES), second.value(CACHE_BYTES))
    return ratio_entry(as_bytes_allow(ratio(record, peer), least))


def _rate(row: Row) -> Entry:
    rate = row.rates.get(FORWARD)
    if rate is None:
        return row.absent(FORWARD)
    if rate.gbps is None:
        return Entry(text=DASH, hint=rate.reason or "")
    return Entry(text=number(round(rate.gbps) if rate.gbps >= 1e3 else rate.gbps), value=rate.gbps)


def _share(row: Row) -> Entry:
    rate = row.rates.get(FORWARD)
    if rate is None:
        return row.absent(FORWARD)
    if rate.memory_share is None:
        return Entry(text=DASH, hint=rate.reason or "")
    return percent_entry(rate.memory_share)
