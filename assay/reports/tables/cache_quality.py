"""Quality through the cache: a row for each layout, its bytes, what it costs, and its band."""

from collections.abc import Sequence
from math import exp

from assay.records.schema import Record
from assay.reports.cache_rows import DENSE, CacheRow, rows_by_cell, workload_name
from assay.reports.numerals import DASH, number
from assay.reports.table import Entry, Table, tabulate

STAGES = ("cache_quality",)
_NOTE = (
    "Loss in nats for each token, and its difference to the dense cache on the same windows with a "
    "95 % interval (Student's t over windows). Of dense: bytes as a share of the dense cache's, "
    "{}. Same choice: the most likely token is that of the dense cache. Bands: tolerant up to "
    "0.5 % of loss and from 98 % of equal choices, catastrophic beyond 5 %, below 80 % or at twice "
    "the perplexity."
)
_MORE = (
    "KL from the dense cache in nats. Margin: how far the dense cache's choice was ahead, in "
    "logits, where a window first goes another way, median. Worst head: the largest relative error "
    "of what one head's attention gives (L2 H1: layer 2, head 1). Needles: numbers hidden in the "
    "text that were retrieved. A layout has figures where all its bytes were decoded as often as "
    "the formula says, and zeros in their place move the logits."
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


def dense_dtype(rows: Sequence[CacheRow]) -> str:
    """The dtype of the dense cache that shares are of, in words."""
    return f"in {next((row.dtype for row in rows if row.dtype), 'the dtype of the model')}"


def band_entry(row: CacheRow) -> Entry:
    """The band that the figures fell into when they were measured, or what would tell it."""
    if row.value("cache_nll") is None:
        return Entry(text=DASH, hint=row.reason("cache_nll"))
    if row.band is None:
        return Entry(text=DASH, hint=row.why_no_band)
    return Entry(text=row.band, tone="failed" if row.band == "catastrophic" else "")


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
    detail = f"L{place.get('layer')} H{place.get('head')}"
    return Entry(text=f"{record.value:.3f}", value=record.value, detail=detail)


_COLUMNS = {
    "layout": lambda row: row.layout,
    "of dense": share_entry,
    "loss": lambda row: row.entry("cache_nll"),
    "above dense": difference_entry,
    "same choice": lambda row: row.entry("cache_agreement", "{:.2%}"),
    "band": band_entry,
}
# In a table of their own, so that neither is wider than 80 letters.
_MORE_COLUMNS = {
    "layout": lambda row: row.layout,
    "B a token": lambda row: row.entry("cache_bytes_per_token", "{:,.0f}"),
    "perplexity": _perplexity,
    "KL": lambda row: row.entry("cache_divergence", "{:.2g}"),
    "margin": lambda row: row.entry("cache_margin", "{:.3f}"),
    "worst head": _worst_head,
    "needles": lambda row: row.entry("cache_needles", "{:.0%}"),
}


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """Two tables for each model and text that was read beside a dense cache: what it costs, and
    where."""
    made = []
    for cell, rows in rows_by_cell(records, STAGES).items():
        if not rows[0].dense:
            continue
        name = workload_name(rows, "cache_proof") or cell
        title = f"Quality through the cache: {name}"
        made.append(tabulate(title, rows, _COLUMNS, note=_NOTE.format(dense_dtype(rows))))
        made.append(tabulate(f"The same caches: {name}", rows, _MORE_COLUMNS, note=_MORE))
    return made
