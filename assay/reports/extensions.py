"""Figures and tables from plugin files: the package's own and those of the user's folders.

A plugin that fails is a line in the report, never the loss of it.
"""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from assay import plugins
from assay.errors import BadInput
from assay.plugins import Plugin
from assay.records.schema import Record
from assay.reports.chart import Chart, ChartGroup
from assay.reports.table import Table

C = TypeVar("C", Chart, ChartGroup)
T = TypeVar("T")

_LONGEST_LINE = 400  # some libraries list all they know in an error


def draw_charts(
    records: Sequence[Record], folders: Sequence[Path] = ()
) -> tuple[list[Chart], list[str]]:
    """The charts that every figure draws, each with a file name of its own, and what failed."""
    figures, problems = _listing("figures", folders)
    charts: list[Chart] = []
    for plugin in figures:
        charts += _call(plugin, "draw", list(records), wanted=Chart, problems=problems)
    return _with_own_names(charts), problems


def make_tables(
    stages: Sequence[str], records: Sequence[Record], folders: Sequence[Path] = ()
) -> tuple[list[Table], list[str]]:
    """The tables of every stage, and what failed."""
    files, problems = _listing("tables", folders)
    named = {stage for plugin in files for stage in _stages(plugin)}
    chosen = {
        stage: [p for p in files if (stage in _stages(p) if stage in named else not _stages(p))]
        for stage in stages
    }
    tables: list[Table] = []
    for stage in sorted(stages, key=lambda stage: min(map(_place, chosen[stage]), default=0)):
        for plugin in chosen[stage]:
            made = _call(plugin, "tables", stage, list(records), wanted=Table, problems=problems)
            detail = plugin.literals.get("DETAIL", False)
            tables += [replace(table, detail=True) if detail else table for table in made]
    return tables, list(dict.fromkeys(problems))


def render_all(charts: Sequence[C], render: Callable[[C], T]) -> tuple[dict[str, T], list[str]]:
    """Each chart or group through `render`, by file stem, and what failed."""
    rendered: dict[str, T] = {}
    problems = []
    for chart in charts:
        try:
            rendered[chart.file_stem] = render(chart)
        except Exception as error:  # the data of a chart may be anyone's
            problems.append(_failure(f"figure {chart.name}", error))
    return rendered, problems


def _listing(kind: str, folders: Sequence[Path]) -> tuple[list[Plugin], list[str]]:
    """Plugins of a kind by place and name; only the package's where the user's are refused."""
    problems = []
    try:
        listed = plugins.listing(kind, folders)
    except BadInput as error:
        problems.append(f"the {kind} of your own folders are left out: {error}")
        listed = plugins.listing(kind)
    return sorted(listed.values(), key=lambda plugin: (_place(plugin), plugin.name)), problems


def _place(plugin: Plugin) -> int:
    return plugin.literals.get("PLACE", 0)


def _stages(plugin: Plugin) -> tuple[str, ...]:
    stages = plugin.literals.get("STAGES", ())
    return (stages,) if isinstance(stages, str) else tuple(stages)


def _call(
    plugin: Plugin, function: str, *arguments: Any, wanted: type[T], problems: list[str]
) -> list[T]:
    """List that a plugin's function returns; empty, with a line in `problems`, where it fails."""
    try:
        if plugin.missing:
            raise BadInput(f"it needs {', '.join(plugin.missing)}, not installed here")
        returned = list(getattr(plugins.load(plugin), function)(*arguments))
        wrong = [each for each in returned if not isinstance(each, wanted)]
        if wrong:
            raise BadInput(
                f"{function} returned {type(wrong[0]).__name__}; "
                f"it must return a list of {wanted.__name__}s"
            )
    except Exception as error:  # a plugin may be anyone's code
        problems.append(_failure(f"{plugin.kind.removesuffix('s')} {plugin.name}", error))
        return []
    return returned


def _with_own_names(charts: list[Chart]) -> list[Chart]:
    """The charts, with a new name for each whose file would replace an earlier one's."""
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
    return textwrap.shorten(f"{name} failed: {kind}{error}", _LONGEST_LINE)
