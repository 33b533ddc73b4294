"""Quality through the cache: a row for each layout, its bytes, what it costs, and its band."""

from collections.abc import Sequence
from math import exp

from assay.records.schema import Record
from assay.reports.cache_rows import DENSE, CacheRow, rows_by_cell, workload_name
from assay.reports.numerals import DASH, number
from assay.reports.table import Entry, Table, tabulate

STAGES = ("cache_quality",)
_SPARE = ("margin", "worst head", "perplexity", "KL", "read", "needles", "bytes a token")
_NOTE = (
    "Loss in nats for each token, and its difference to the dense cache on the same windows with a "
    "95 % interval (Student's t over windows). Same choice: the most likely token is that of the "
    "dense cache. Margin: how far the dense cache's choice was ahead, in logits, where a window "
    "first goes another way, median. Worst head: the largest relative error of what one head's "
    "attention gives, and its layer. Bands: tolerant up to 0.5 % of loss and from 98 % of equal "
    "choices, catastrophic beyond 5 %, below 80 % or at twice the perplexity. Read: all bytes of "
    "the cache were decoded as often as the formula says, and zeros in their place move the logits."
)


def difference_entry(row: CacheRow) -> Entry:
    """The loss above the dense cache's, by windows."""
    pair = row.difference("cache_nll")
    if pair is None:
        hint = "the others are held against it" if row.layout == DENSE else row.reason("cache_nll")
        return Entry(text=DASH, hint=hint)
    mean, half = pair
    count = len(row.own["cache_nll"].samples)
    return Entry(text=f"{mean:+.4f} ± {half:.4f}", value=mean, detail=f"n {count}")


def share_entry(row: CacheRow, metric: str = "cache_bytes_per_token") -> Entry:
    """Bytes as a share of the dense cache's."""
    share = row.share(metric)
    if share is None:
        return Entry(text=DASH, hint=row.reason(metric))
    return Entry(text=f"{share:.4f}", value=share)


def band_entry(row: CacheRow) -> Entry:
    """The band that the figures fell into when they were measured."""
    record = row.own.get("cache_nll")
    if record is None:
        return Entry(text=DASH, hint=row.reason("cache_nll"))
    band = (record.data or {}).get("band", DASH)
    return Entry(text=band, tone="failed" if band == "catastrophic" else "")


def _perplexity(row: CacheRow) -> Entry:
    loss = row.value("cache_nll")
    if loss is None:
        return Entry(text=DASH, hint=row.reason("cache_nll"))
    return Entry(text=number(exp(loss)), value=exp(loss))


def _worst_head(row: CacheRow) -> Entry:
    record = row.own.get("cache_head_error")
    if record is None or record.value is None:
        return Entry(text=DASH, hint=row.reason("cache_head_error"))
    place = record.data or {}
    detail = f"layer {place.get('layer')}, head {place.get('head')}"
    return Entry(text=f"{record.value:.3f}", value=record.value, detail=detail)


def _read(row: CacheRow) -> Entry:
    proof, read = row.own.get("cache_proof"), row.own.get("cache_read_bytes")
    if not all(record and record.status == "ok" for record in (proof, read)):
        return Entry(text="no", tone="failed", hint=row.reason("cache_proof"))
    return Entry(text="yes", hint=f"{read.value:,.0f} bytes in all")


_COLUMNS = {
    "layout": lambda row: row.layout,
    "bytes a token": lambda row: row.entry("cache_bytes_per_token", "{:,.0f}"),
    "of dense": share_entry,
    "loss": lambda row: row.entry("cache_nll"),
    "above dense": difference_entry,
    "perplexity": _perplexity,
    "same choice": lambda row: row.entry("cache_agreement", "{:.2%}"),
    "KL": lambda row: row.entry("cache_divergence", "{:.2g}"),
    "margin": lambda row: row.entry("cache_margin", "{:.3f}"),
    "worst head": _worst_head,
    "needles": lambda row: row.entry("cache_needles", "{:.0%}"),
    "band": band_entry,
    "read": _read,
}


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """One table for each model and text that was read beside a dense cache."""
    made = []
    for cell, rows in rows_by_cell(records, STAGES).items():
        if not rows[0].dense:
            continue
        name = workload_name(rows, "cache_proof") or cell
        title = f"Quality through the cache: {name}"
        made.append(tabulate(title, rows, _COLUMNS, note=_NOTE, spare=_SPARE))
    return made
