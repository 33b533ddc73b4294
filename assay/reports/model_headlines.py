"""Sentences on models: what a cache costs them, their scores, and the loss of a single training."""

from collections.abc import Sequence
from statistics import fmean

from assay.records.schema import Record
from assay.records.verdicts import WRONG
from assay.reports.cache_rows import DENSE, CacheRow, rows_by_cell
from assay.reports.eval_rows import PREFIX, STAGE, eval_rows
from assay.reports.numerals import counted, number
from assay.reports.training_rows import trained_models

_QUALITY = "cache_quality"
_CACHES = (_QUALITY, "cache_decode")


def cache_costs(records: Sequence[Record]) -> list[str]:
    """A sentence for each layout that was read beside a dense cache, the least loss first."""
    cells = rows_by_cell(records, (_QUALITY,)).values()
    rows = [row for rows in cells for row in rows if row.layout != DENSE]
    known = [row for row in rows if row.difference("cache_nll")]
    return [_cost(row) for row in sorted(known, key=lambda row: row.difference("cache_nll"))]


def unread_caches(records: Sequence[Record]) -> tuple[str, bool]:
    """A sentence on layouts beside dense of which nothing was measured, though nothing failed,
    empty where there are none; and True where there is no other."""
    rows = [r for own in rows_by_cell(records, _CACHES).values() for r in own if r.layout != DENSE]
    idle = [
        r for r in rows if not any(record.status in ("ok", *WRONG) for record in r.own.values())
    ]
    if not idle:
        return "", False
    first = f"{idle[0].layout} of {idle[0].model}: {idle[0].reason('cache_proof')}"
    return f"{len(idle)} of {counted(len(rows), 'layout')} not read: {first}", len(idle) == len(
        rows
    )


def scores(records: Sequence[Record]) -> list[str]:
    """A sentence for each score of a model: its value, and its distance from the first model's."""
    sentences = []
    for row in eval_rows(STAGE, records):
        if row.known:
            score = number(fmean(record.value for record in row.known.values()))
            error = f" ± {number(row.error)} (standard error)" if row.error is not None else ""
            compared = not (row.is_baseline or row.why_not_compared)
            verdict = f"; against the first: {row.verdict}" if compared else ""
            name = row.metric.removeprefix(PREFIX)
            sentences.append(f"{row.model}: {name} {score}{error}{verdict}")
    return sentences


def single_trainings(records: Sequence[Record]) -> list[str]:
    """The final loss of a model that was trained beside no other."""
    models = trained_models(records)
    if len(models) != 1 or not models[0].ended:
        return []
    (model,) = models
    losses = [run.loss for run in model.ended.values() if run.loss is not None]
    ended = f"{len(model.ended):,} of {counted(len(model.seeds), 'seed')}"
    return [f"{model.name}: loss {fmean(losses):.4f} nats (mean), {ended}"]


def _cost(row: CacheRow) -> str:
    mean, half = row.difference("cache_nll") or (0.0, 0.0)
    share = row.share("cache_bytes_per_token")
    dense = f"the dense bytes in {row.dtype}" if row.dtype else "the dense bytes"
    size = f"{share:.0%} of {dense}, " if share is not None else ""
    loss = f"loss {mean:+.4f} ± {half:.4f} nats"
    band = f"band {row.band}" if row.band else f"band: {row.why_no_band}"
    return f"{row.layout}: {size}{loss}, {band}; {row.model}"
