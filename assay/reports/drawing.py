"""All figures of a report: every file in `figures/` and the user's folders, drawn once each.

A figure that fails is a line in the report, never the loss of it.
"""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from assay import plugins
from assay.errors import BadInput
from assay.plugins import Plugin
from assay.records.schema import Record
from assay.reports.chart import Chart, Plate

C = TypeVar("C", Chart, Plate)
T = TypeVar("T")

_LONGEST_LINE = 400  # some libraries list all they know in an error


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The charts that could be drawn, each with a file name of its own, and what failed."""

    charts: list[Chart]
    problems: list[str]


def draw_all(records: list[Record], folders: Sequence[Path] = ()) -> Drawn:
    """What every figure draws from `records`."""
    charts: list[Chart] = []
    problems: list[str] = []
    try:
        found = plugins.listing("figures", folders)
    except BadInput as error:
        problems.append(f"the figures of your own folders are left out: {error}")
        found = plugins.listing("figures")
    for plugin in sorted(found.values(), key=lambda p: (p.literals.get("PLACE", 0), p.name)):
        try:
            charts += _draw(plugin, records)
        except Exception as error:  # a figure may be anyone's code
            problems.append(_failure(plugin.name, error))
    return Drawn(charts=_with_own_names(charts), problems=problems)


def render_all(charts: Sequence[C], render: Callable[[C], T]) -> tuple[dict[str, T], list[str]]:
    """Each chart or plate through `render`, by file stem, and what failed."""
    rendered: dict[str, T] = {}
    problems = []
    for chart in charts:
        try:
            rendered[chart.file_stem] = render(chart)
        except Exception as error:  # the data of a chart may be anyone's
            problems.append(_failure(chart.name, error))
    return rendered, problems


def _draw(plugin: Plugin, records: list[Record]) -> list[Chart]:
    if plugin.missing:
        raise BadInput(f"it needs {', '.join(plugin.missing)}, not installed here")
    charts = plugins.load(plugin).draw(list(records))
    wrong = [chart for chart in charts if not isinstance(chart, Chart)]
    if wrong:
        raise BadInput(f"draw returned {type(wrong[0]).__name__}; it must return a list of Charts")
    return list(charts)


def _with_own_names(charts: list[Chart]) -> list[Chart]:
    """The charts, those whose file would replace an earlier one's under another name."""
    taken: set[str] = set()
    named = []
    for chart in charts:
        base, number = chart.name, 1
        while chart.file_stem.lower() in taken:
            number += 1
            chart = replace(chart, name=f"{base}-{number}")
        taken.add(chart.file_stem.lower())
        named.append(chart)
    return named


def _failure(name: str, error: Exception) -> str:
    kind = "" if isinstance(error, BadInput) else f"{type(error).__name__}: "
    return textwrap.shorten(f"figure {name} failed: {kind}{error}", _LONGEST_LINE)
