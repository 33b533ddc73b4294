"""Which results share a chart over length: those whose workloads differ in nothing but length.

A grid of sixty workloads is a dozen panels of one plate, each with a line for each implementation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from assay.laws.pairs import clock_of
from assay.records.schema import Record
from assay.reports.chart import Chart, Curve, Series
from assay.reports.speed_rows import STAGES, Row, speed_rows

_MASKS = {True: "causal", False: "full"}
_SAID = {"batch": "batch", "head_dim": "d"}


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Rows over length; `label` says what tells it from the stage's other panels."""

    stage: str
    label: str
    shared: str  # what all panels of the stage have in common
    alone: bool
    rows: tuple[Row, ...]

    @property
    def lengths(self) -> list[int]:
        return sorted({length_of(row) for row in self.rows})


@dataclass(frozen=True, kw_only=True)
class Point:
    """One value of a row, with its bounds where it has any, and more to say of it."""

    y: float
    low: float | None = None
    high: float | None = None
    hint: str = ""
    x: float | None = None  # the length unless it is given


def panels(records: Sequence[Record]) -> list[Panel]:
    """Every stage that measures speed, cut into panels."""
    found = []
    stages = dict.fromkeys(record.stage for record in records)
    for stage in (name for name in stages if name in STAGES or _timed(name, records)):
        found += _of_stage(stage, speed_rows(stage, records))
    return found


def clocks(panel: Panel, metric: str) -> list[str]:
    """Who was timed by another clock than the first, so that its line is read with care."""
    timed = [row for row in panel.rows if row.value(metric) is not None]
    taken = {row.subject: clock_of(row.records[metric]) for row in timed}
    first = next(iter(taken.values()), "")
    others: dict[str, list[str]] = {}
    for subject, clock in taken.items():
        if clock != first and metric != "device_ms":
            others.setdefault(clock, []).append(subject)
    return [f"{', '.join(names)}: {clock}" for clock, names in others.items()]


def length_of(row: Row) -> int:
    return int(row.workload.spec.get("key_length", 0))


def chart(
    panel: Panel,
    kind: str,
    title: str,
    y_label: str,
    point: Callable[[Row], Point | None],
    *,
    metric: str,
    notes: Sequence[str] = (),
    limit: float | None = None,
    limit_name: str = "",
    log_y: bool = False,
) -> Chart | None:
    """Points over length, a line for each subject; None where there is no point.

    With a single length the subjects are listed instead, since a line needs two.
    """
    drawn = [(row, found) for row in panel.rows if (found := point(row)) and length_of(row) > 0]
    if not drawn:
        return None
    listed = len(panel.lengths) == 1
    groups: dict[str, list[tuple[Row, Point]]] = {}
    for row, found in drawn:
        groups.setdefault(row.subject, []).append((row, found))
    return _chart(
        panel,
        kind,
        title,
        y_label=y_label,
        x_label="key length (tokens)",
        log_x=True,
        log_y=log_y and not listed,
        limit=limit,
        limit_name=limit_name,
        series=tuple(_series(name, found, listed) for name, found in groups.items()),
        note="; ".join(filter(None, (*notes, panel.shared, _absent(panel, metric, drawn)))),
    )


def scatter(
    panel: Panel, kind: str, title: str, *, curves: tuple[Curve, ...], **rest: Any
) -> Chart:
    """A chart whose x is not the length, with curves to compare the points with."""
    return _chart(panel, kind, title, curves=curves, log_x=True, log_y=True, **rest)


def _chart(panel: Panel, kind: str, title: str, **rest: Any) -> Chart:
    group = f"{kind}_{panel.stage}"
    whole = title if panel.stage == STAGES[0] else f"{title}, {panel.stage}"
    if panel.alone:
        return Chart(name=group, title=whole, **rest)
    return Chart(
        name=f"{group}_{panel.label}",
        title=f"{whole}: {panel.label}",
        group=group,
        group_title=whole,
        panel=panel.label,
        **rest,
    )


def _series(subject: str, found: list[tuple[Row, Point]], listed: bool) -> Series:
    ordered = sorted(found, key=lambda pair: length_of(pair[0]))
    points = [point for _, point in ordered]
    bounded = all(point.low is not None and point.high is not None for point in points)
    x: tuple[Any, ...] = tuple(
        length_of(row) if point.x is None else point.x for row, point in ordered
    )
    return Series(
        subject=subject,
        x=(subject,) * len(points) if listed else x,
        y=tuple(point.y for point in points),
        low=tuple(point.low for point in points if point.low is not None) if bounded else (),
        high=tuple(point.high for point in points if point.high is not None) if bounded else (),
        hints=tuple(point.hint for point in points),
    )


def _absent(panel: Panel, metric: str, drawn: Sequence[tuple[Row, Point]]) -> str:
    """Each subject that lacks a point, with the lengths and how it ended there."""
    there = {id(row) for row, _ in drawn}
    lost: dict[str, dict[str, list[str]]] = {}
    for row in sorted(panel.rows, key=length_of):
        status, _ = row.ending(metric)
        if id(row) not in there and status != "ok" and row.value(metric) is None:
            ends = lost.setdefault(row.subject, {})
            ends.setdefault(status, []).append(f"{length_of(row):,}")
    told = [
        f"{subject}{_at(lengths, panel)} ({status})"
        for subject, ends in lost.items()
        for status, lengths in ends.items()
    ]
    return f"not drawn: {'; '.join(told)}" if told else ""


def _at(lengths: Sequence[str], panel: Panel) -> str:
    """The lengths, unless they are all that there are."""
    return "" if len(lengths) == len(panel.lengths) > 1 else f" at {', '.join(lengths)}"


def _of_stage(stage: str, rows: Sequence[Row]) -> list[Panel]:
    groups: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(_parameters(row).items()), []).append(row)
    every = [dict(key) for key in groups]
    names = dict.fromkeys(name for key in every for name in key)
    same = {n for n in names if len({key.get(n) for key in every}) == 1}
    found = [
        Panel(
            stage=stage,
            label=", ".join(v for n, v in key if n not in same) or "all",
            shared=", ".join(v for n, v in key if n in same),
            alone=len(groups) == 1,
            rows=tuple(mine),
        )
        for key, mine in groups.items()
    ]
    # The page opens on the first: where a grid is unfinished, on one that has most of its lengths.
    return sorted(found, key=lambda panel: -len(panel.lengths))


def _parameters(row: Row) -> dict[str, str]:
    """What a workload is, but for its length, in words."""
    spec = dict(row.workload.spec)
    key_length, query_length = spec.pop("key_length", None), spec.pop("query_length", None)
    heads, kv_heads = spec.pop("heads", None), spec.pop("kv_heads", None)
    found = {"mask": _MASKS.get(spec.pop("causal", None), "")} if "causal" in spec else {}
    found["dtype"] = str(spec.pop("dtype", ""))
    if heads is not None:
        found["heads"] = f"heads {heads}/{kv_heads}" if kv_heads != heads else f"heads {heads}"
    found |= {name: f"{_SAID.get(name, name)} {value}" for name, value in spec.items() if value}
    if query_length != key_length:
        found["query_length"] = f"{query_length} queries"
    return {name: value for name, value in found.items() if value}


def _timed(stage: str, records: Sequence[Record]) -> bool:
    return any(r.stage == stage and r.metric == "latency_ms" for r in records)
