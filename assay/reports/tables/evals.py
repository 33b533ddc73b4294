"""Evals: each score of each model with its error, and against the first model on the same items."""

from collections.abc import Sequence
from statistics import fmean

from assay.records.schema import Record
from assay.reports.eval_rows import PREFIX, EvalRow, eval_rows
from assay.reports.numerals import DASH, number
from assay.reports.table import Entry, Table, tabulate
from assay.reports.training_rows import half_interval

STAGES = ("train", "evals")
PLACE = 60
_NOTE = (
    "Score: mean over seeds of the weights after the last step, with the lowest and the highest "
    "seed in brackets; a model that was not trained here has one score. Error: the standard error "
    "of the score of a seed, over items. Items: questions or windows of the text. Difference: the "
    "score less that of the first model, mean over seeds, ± half of its 95 % interval over seeds. "
    "Over items: half of the 95 % interval of the same mean over n items, each the mean of the "
    "seeds (Student's t both). Verdict: better or worse where the difference is larger than "
    "both halves that there are; no difference shown is no proof that there is none."
)


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """One table, where there are scores or evals that failed."""
    rows = eval_rows(stage, records)
    if not rows:
        return []
    several = len({row.model for row in rows}) > 1
    columns = {**_COLUMNS, **(_PAIRED if several else {})}
    return [tabulate("Evals", rows, columns, note=_NOTE)]


def _score(row: EvalRow) -> Entry:
    values = [record.value for record in row.known.values()]
    if not values:
        worst = next(iter(row.seeds.values())).status
        return Entry(text=DASH, hint=row.reason, tone="" if worst == "ok" else worst)
    low, high = number(min(values)), number(max(values))
    detail = f"{low}–{high}" if low != high else ""
    unit = next(iter(row.seeds.values())).unit
    text = number(fmean(values)) + ("" if unit in ("1", "share") else f" {unit}")
    tone = "failed" if len(values) < len(row.seeds) else ""
    return Entry(text=text, value=fmean(values), detail=detail, hint=row.reason, tone=tone)


def _error(row: EvalRow) -> Entry:
    if row.error is None:
        return Entry(text=DASH, hint=row.data("why_no_error") or row.reason)
    return Entry(text=number(row.error), value=row.error)


def _items(row: EvalRow) -> Entry:
    count = row.data("items")
    return Entry(text=DASH, hint=row.reason) if count is None else Entry(text=f"{count:,}")


def _difference(row: EvalRow) -> Entry:
    if row.is_baseline:
        return Entry(text=DASH)
    if row.why_not_compared:
        return Entry(text=DASH, hint=row.why_not_compared, tone="refused")
    mean, half = fmean(row.by_seed), half_interval(row.by_seed)
    text = f"{mean:+.4f}" + ("" if half is None else f" ± {half:.4f}")
    return Entry(text=text, value=mean, detail=f"n {len(row.by_seed)}" if row.trained else "")


def _over_items(row: EvalRow) -> Entry:
    if row.is_baseline or row.why_not_compared:
        return Entry(text=DASH)
    half = half_interval(row.by_item)
    if half is None:
        return Entry(text=DASH, hint="no samples of items, or a single item")
    return Entry(text=f"± {half:.4f}", value=half, detail=f"n {len(row.by_item)}")


def _verdict(row: EvalRow) -> Entry:
    if row.is_baseline:
        return Entry(text="baseline")
    return Entry(text="not compared" if row.why_not_compared else row.verdict)


_COLUMNS = {
    "eval": lambda row: row.metric.removeprefix(PREFIX),
    "model": lambda row: row.model,
    "score": _score,
    "error": _error,
    "items": _items,
}
_PAIRED = {"difference": _difference, "over items": _over_items, "verdict": _verdict}
