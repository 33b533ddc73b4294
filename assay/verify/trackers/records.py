"""Records made of what a tracker holds of a run: values by step, and its end."""

from collections.abc import Iterator, Mapping
from typing import Any

from assay.records.schema import SCHEMA, Record
from assay.trackers.aliases import METRICS, ReadConfig
from assay.trackers.metric_points import all_points
from assay.trackers.run import NOT_FINITE, TrackerRow, TrackerRun, reading
from assay.verify.compared import FINAL

_STAGE = "train"
_TOKENS = ("tokens", "train/tokens", "tokens_seen", "num_input_tokens_seen",
           "train/num_input_tokens_seen")  # fmt: skip
_NOT_ENDED = {
    "failed": "its process ended with an error",
    "crashed": "its tracker lost it",
    "killed": "it was killed",
    "unfinished": "its tracker holds no end of it: it still runs, or was killed",
    "running": "it still runs",
}


def of_mirror(tracked: TrackerRun, symbols: Mapping[str, str]) -> Iterator[Record]:
    """Records of one cell of ours, as its mirror sent them; rows of its table for other stages."""
    config = tracked.config
    place = {
        "run": config["run"],
        "stage": config["stage"],
        "cell": config["cell"] or "",
        "subject": config.get("subject") or "",
    }
    about = {"seed": config.get("seed"), "dataset": symbols.get("TRAIN_DATASET")}
    for entry in tracked.history:
        for metric, value in entry.values.items():
            data = {**about, **_at(entry, symbols, {})}
            yield _made(metric, value, data, place)
    logged = {metric for entry in tracked.history for metric in entry.values}
    yield from _rest(tracked, logged, about, place)
    for cells in tracked.tables:
        yield from _table_row(cells, place)
    yield from _end(tracked, place)


def of_history(
    tracked: TrackerRun, read: ReadConfig, *, runs: int
) -> tuple[list[Record], dict[str, str]]:
    """Records of a run that assay did not make, and the names that its metrics were read by."""
    logged = {metric for entry in tracked.history for metric in entry.values}
    names, read_as = {}, {}
    for ours, others in METRICS.items():
        if own := next((name for name in others if name in logged), None):
            names[own] = ours
            if own != ours:
                read_as[ours] = own
    if tracked.step_column != "_step":
        read_as["step"] = tracked.step_column
    subject = read.symbols.get("MODELS", "model").replace("/", "_")
    place = {
        "run": tracked.identity or tracked.name,
        "stage": _STAGE,
        "cell": tracked.label if runs > 1 else _cell(subject, read.seed),
        "subject": subject,
    }
    about: dict[str, Any] = {"seed": read.seed} if read.seed is not None else {}
    tokens = _tokens_by_step(tracked)
    records = [
        _made(names[name], value, {**about, **_at(entry, read.symbols, tokens)}, place)
        for entry in tracked.history
        for name, value in entry.values.items()
        if name in names
    ]
    own = next((name for name, ours in names.items() if ours == "val_loss"), None)
    if own and (last := _last_row(tracked, own)):
        about |= {"dataset": read.symbols.get("TRAIN_DATASET")}
        data = {**about, **_at(last, read.symbols, tokens)}
        failure = {} if own in last.values else {"status": "failed", "reason": "it is not finite"}
        records.append(_made(FINAL, last.values.get(own), data, place, **failure))
        read_as[FINAL] = f"the last {own}"
        if "tokens" in data and not tokens:
            read_as["tokens"] = "step × TRAIN_BATCH × TRAIN_LENGTH"
    return [*records, *_end(tracked, place)], read_as


def _cell(subject: str, seed: int | None) -> str:
    return subject if seed is None else f"{subject}/s{seed}"


def _last_row(tracked: TrackerRun, metric: str) -> TrackerRow | None:
    """The last row by step that has a metric, though it may not be finite: a run that diverged
    does not end with its last good value."""
    rows = [
        entry
        for entry in tracked.history
        if entry.step is not None
        and (metric in entry.values or entry.unusable.get(metric) == NOT_FINITE)
    ]
    return max(rows, key=lambda entry: entry.step or 0, default=None)


def _at(
    entry: TrackerRow, symbols: Mapping[str, str], tokens: Mapping[int, float]
) -> dict[str, Any]:
    """Step of a row, and the tokens until there where they are logged or follow."""
    if entry.step is None:
        return {}
    if entry.step in tokens:
        return {"step": entry.step, "tokens": int(tokens[entry.step])}
    factors = [symbols.get(name, "") for name in ("TRAIN_BATCH", "TRAIN_LENGTH")]
    if tokens or not all(factor.isdecimal() for factor in factors):
        return {"step": entry.step}
    return {"step": entry.step, "tokens": entry.step * int(factors[0]) * int(factors[1])}


def _tokens_by_step(tracked: TrackerRun) -> dict[int, float]:
    logged = all_points(tracked.history, _TOKENS)
    return next((points.by_step for points in logged.values()), {})


def _rest(
    tracked: TrackerRun, logged: set[str], about: dict[str, Any], place: dict[str, str]
) -> Iterator[Record]:
    """Values of a summary that no row has, and those that are said to be unknown."""
    for name, value in tracked.summary.items():
        number = reading(value)
        metric = name.removesuffix(".reason")
        if isinstance(number, float) and name not in logged and not name.startswith("_"):
            yield _made(name, number, about, place)
        if name.endswith(".reason") and metric not in logged and metric not in tracked.summary:
            status = tracked.summary.get(f"{metric}.status", "ok")
            yield _made(metric, None, about, place, status=status, reason=str(value))


def _table_row(cells: Mapping[str, Any], place: dict[str, str]) -> Iterator[Record]:
    number = reading(cells.get("value"))
    value = number if isinstance(number, float) else None
    own = {**place, **{key: str(cells.get(key) or "") for key in ("cell", "subject")}}
    status = cells.get("status") or "ok"
    is_whole = value is not None and status == "ok"
    reason = cells.get("reason") or (None if is_whole else "its tracker gives no reason")
    yield _made(str(cells.get("metric")), value, {}, own, status=status, reason=reason)


def _end(tracked: TrackerRun, place: dict[str, str]) -> Iterator[Record]:
    """A record of a run that did not come to its end."""
    if reason := _NOT_ENDED.get(tracked.state or ""):
        yield _made("end_of_run", None, {}, place, status="failed", reason=reason)


def _made(
    metric: str,
    value: float | None,
    data: dict[str, Any],
    place: dict[str, str],
    **more: Any,
) -> Record:
    return Record(
        metric=metric, value=value, unit="1", data=data or None, schema=SCHEMA, session=1,
        fingerprint="", host="", time="", **place, **more,
    )  # fmt: skip
