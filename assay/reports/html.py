"""Pages that need no network: style, script and plotly.js are inside them.

Templates, stylesheet and script are the files in `page/`. Whatever comes from records is escaped by
the templates, since autoescape is on.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from assay.errors import CannotRunHere
from assay.installation import how_to_add
from assay.plugins import installed
from assay.reports import style
from assay.reports.chart import Chart, grouped
from assay.reports.interactive import plotly_script
from assay.reports.report import Report
from assay.reports.table import Entry, Table

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_MOST_REASONS = 8  # below a table; more are folded away
_LONG, _LONG_NAME = 60, 20  # letters of what is not set in a narrow column
_NAME_COLUMNS = {
    "workload", "cell", "subject", "against", "metric", "stage", "command", "symbol", "key",
    "kernel", "longest kernel", "site",
}  # fmt: skip


def page(report: Report, *, figures: Mapping[str, str]) -> str:
    """report.html; `figures` holds Plotly's JSON by the file stem of its chart."""
    from markupsafe import Markup

    drawn = [chart for chart in report.charts if chart.file_stem in figures]
    template = _environment().get_template("report.html")
    return template.render(
        opening=report,
        groups=grouped(drawn),
        figures=figures,
        plotly_script=Markup(plotly_script()) if drawn else "",
    )


def document(opening: Any, body: Iterable[str]) -> str:
    """A page whose `body` is finished HTML.

    `opening` has a title, a verdict with its tone, and lists of facts, headlines and problems.
    """
    from markupsafe import Markup

    template = _environment().get_template("document.html")
    return template.render(opening=opening, body=Markup("\n").join(map(Markup, body)))


def tables(name: str, heading: str, members: Sequence[Table]) -> "Markup":
    """A section of tables; empty where there are none."""
    return _parts().tables(name, heading, members)


def folded(name: str, heading: str, members: Sequence[Table]) -> "Markup":
    """A section of tables that is closed until it is opened."""
    return _parts().folded(name, heading, members)


def chooser(
    title: str, panels: Sequence[str], *, of: str = "workloads", shown: str | None = None
) -> "Markup":
    """The choice of a figure's panel, the first unless one is named; the page's script moves all
    figures together."""
    return _parts().chooser(title, panels, of, shown)


def _parts() -> Any:
    return _environment().get_template("parts.html").module


@cache
def _environment() -> "Environment":
    if not installed("jinja2"):
        raise CannotRunHere(
            f"a page takes the package jinja2; install it with `{how_to_add('report')}`"
        )
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("assay.reports", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "asset": _asset,
        "themes": {"light": style.LIGHT, "dark": style.DARK},
        "most_reasons": _MOST_REASONS,
    }
    environment.filters |= {
        "breakable": _breakable,
        "cell_class": _cell_class,
        "described": _described,
        "json_text": _json_text,
        "split_unit": _split_unit,
        "tone": style.TONES.__getitem__,
    }
    return environment


def _asset(name: str) -> "Markup":
    """The text of a stylesheet or script, which is part of this package."""
    from markupsafe import Markup

    return Markup((files("assay.reports") / "page" / name).read_text(encoding="utf-8"))


def _breakable(text: str) -> "Markup":
    """Escaped text whose long names may be broken after an underscore."""
    from markupsafe import Markup, escape

    return escape(text).replace("_", Markup("_<wbr>"))


def _cell_class(entry: Entry, column: str, numeric: bool) -> str | None:
    classes = ["number"] if numeric else ["name"] if column in _NAME_COLUMNS else []
    classes += [style.TONES[entry.tone]] if entry.tone in style.TONES else []
    classes += ["long"] if len(entry.text) > (_LONG_NAME if "name" in classes else _LONG) else []
    return " ".join(classes) or None


def _described(chart: Chart) -> str:
    """A chart in words, for those who cannot see it; its numbers are in the tables."""
    names = ", ".join(dict.fromkeys(series.name for series in chart.series))
    panel = f", {chart.panel}" if chart.panel else ""
    across = "" if chart.listed else f" over {chart.x_label}"
    return f"{chart.title}{panel}: {chart.y_label}{across}, for {names}"


def _json_text(text: str) -> "Markup":
    """JSON inside a script element, which a "<" could end unless it is written as an escape."""
    from markupsafe import Markup

    return Markup(text.replace("<", "\\u003c"))


def _split_unit(column: str) -> tuple[str, str | None]:
    """A column's name, and the unit in brackets after it."""
    name, unit = re.fullmatch(r"(.*?)(?: \(([^()]*)\))?", column, re.DOTALL).groups()
    return name, unit
