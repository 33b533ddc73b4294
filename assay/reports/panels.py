"""Panels of a chart over length: results whose workloads differ in nothing but length.

A grid of sixty workloads is a dozen panels of one figure, each with a line for each implementation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.laws.curves import MEASURING
from assay.laws.pairs import clock_of
from assay.records.schema import Record
from assay.reports.chart import Chart, Series
from assay.reports.speed_rows import FORWARD, Row, speed_rows

_MASKS = {True: "causal", False: "full"}
_SHORT_NAMES = {"head_dim": "d"}


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Rows over length; `label` tells it from the other panels of its stage."""

    stage: str
    label: str
    shared: str  # what all panels of the stage have in common
    alone: bool
    rows: tuple[Row, ...]

    @property
    def lengths(self) -> list[int]:
        return sorted({length_of(row) for row in self.rows})

    def other_clocks(self, metric: str) -> list[str]:
        """The subjects that another clock than the first subject's timed, by clock."""
        clocks = {
            row.subject: clock_of(row.records[metric])
            for row in self.rows
            if row.value(metric) is not None
        }
        first = next(iter(clocks.values()), "")
        others: dict[str, list[str]] = {}
        for subject, clock in clocks.items():
            if clock != first and metric != "device_ms":
                others.setdefault(clock, []).append(subject)
        return [f"{', '.join(names)}: {clock}" for clock, names in others.items()]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One value of a row, with its bounds where it has any, and a hint to show on hovering."""

    y: float
    low: float | None = None
    high: float | None = None
    hint: str = ""


def charts_of(
    records: Sequence[Record],
    kinds: Mapping[str, tuple[str, str]],
    draw: Callable[[Panel, str, str, str], Chart | None],
) -> list[Chart]:
    """The charts of every metric and panel; `kinds` gives a metric's name of file and title."""
    every = panels(records)
    charts = (draw(panel, metric, *kind) for metric, kind in kinds.items() for panel in every)
    return [chart for chart in charts if chart]


def panels(records: Sequence[Record]) -> list[Panel]:
    """Every stage that measures speed, cut into panels."""
    timed = {record.stage for record in records if record.metric == FORWARD}
    stages = dict.fromkeys(r.stage for r in records if r.stage in timed.union(MEASURING))
    return [panel for stage in stages for panel in _of_stage(stage, speed_rows(stage, records))]


def parameters(spec: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of a workload but for its length, in words by name."""
    spec = dict(spec)
    key_length, query_length = spec.pop("key_length", None), spec.pop("query_length", None)
    heads, kv_heads = spec.pop("heads", None), spec.pop("kv_heads", None)
    words = {"mask": _MASKS.get(spec.pop("causal", None), "")} if "causal" in spec else {}
    words["dtype"] = str(spec.pop("dtype", ""))
    if heads is not None:
        words["heads"] = f"heads {heads}/{kv_heads}" if kv_heads != heads else f"heads {heads}"
    for name, value in spec.items():
        words[name] = f"{_SHORT_NAMES.get(name, name)} {value}" if value else ""
    if query_length != key_length:
        words["query_length"] = "1 query" if query_length == 1 else f"{query_length} queries"
    return {name: word for name, word in words.items() if word}


def shared_parameters(specs: Sequence[Mapping[str, str]]) -> set[str]:
    """The names of the parameters that are the same in all of them."""
    names = dict.fromkeys(name for spec in specs for name in spec)
    return {name for name in names if len({spec.get(name) for spec in specs}) == 1}


def length_of(row: Row) -> int:
    return int(row.workload.spec.get("key_length", 0))


def length_chart(
    panel: Panel,
    kind: str,
    title: str,
    y_label: str,
    point_of: Callable[[Row], Point | None],
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
    drawn = [(row, point) for row in panel.rows if (point := point_of(row)) and length_of(row) > 0]
    if not drawn:
        return None
    listed = len(panel.lengths) == 1
    subjects: dict[str, list[tuple[Row, Point]]] = {}
    for row, point in drawn:
        subjects.setdefault(row.subject, []).append((row, point))
    return panel_chart(
        panel,
        kind,
        title,
        y_label=y_label,
        x_label="key length (tokens)",
        log_x=True,
        log_y=log_y and not listed,
        limit=limit,
        limit_name=limit_name,
        series=tuple(_series(name, points, listed) for name, points in subjects.items()),
        note="; ".join(filter(None, (*notes, panel.shared, _missing(panel, metric, drawn)))),
    )


def panel_chart(panel: Panel, kind: str, title: str, **rest: Any) -> Chart:
    """A chart of one panel, grouped with those of the stage's other panels."""
    group = f"{kind}_{panel.stage}"
    whole = title if panel.stage == MEASURING[0] else f"{title}, {panel.stage}"
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


def _series(subject: str, drawn: list[tuple[Row, Point]], listed: bool) -> Series:
    ordered = sorted(drawn, key=lambda pair: length_of(pair[0]))
    points = [point for _, point in ordered]
    bounded = all(point.low is not None and point.high is not None for point in points)
    return Series(
        subject=subject,
        x=tuple(subject if listed else length_of(row) for row, _ in ordered),
        y=tuple(point.y for point in points),
        low=tuple(point.low for point in points if point.low is not None) if bounded else (),
        high=tuple(point.high for point in points if point.high is not None) if bounded else (),
        hints=tuple(point.hint for point in points),
    )


def _missing(panel: Panel, metric: str, drawn: Sequence[tuple[Row, Point]]) -> str:
    """Each subject that lacks a point, with the lengths and how it ended there."""
    shown = {id(row) for row, _ in drawn}
    missing: dict[tuple[str, str], list[str]] = {}
    for row in sorted(panel.rows, key=length_of):
        status, _ = row.ending(metric)
        if id(row) not in shown and status != "ok" and row.value(metric) is None:
            missing.setdefault((row.subject, status), []).append(f"{length_of(row):,}")
    lines = []
    for (subject, status), lengths in missing.items():
        everywhere = len(lengths) == len(panel.lengths) > 1
        place = "" if everywhere else f" at {', '.join(lengths)}"
        lines.append(f"{subject}{place} ({status})")
    return f"not drawn: {'; '.join(lines)}" if lines else ""


def _of_stage(stage: str, rows: Sequence[Row]) -> list[Panel]:
    groups: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(parameters(row.workload.spec).items()), []).append(row)
    same = shared_parameters([dict(key) for key in groups])
    made = [
        Panel(
            stage=stage,
            label=", ".join(word for name, word in key if name not in same) or "all",
            shared=", ".join(word for name, word in key if name in same),
            alone=len(groups) == 1,
            rows=tuple(members),
        )
        for key, members in groups.items()
    ]
    # The page opens on the first: where a grid is unfinished, on one that has most of its lengths.
    return sorted(made, key=lambda panel: -len(panel.lengths))
