"""The report as one page that needs no network: style, script and plotly.js are inside it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Protocol

from assay.reports.chart import Chart, plates
from assay.reports.interactive import plotly_script
from assay.reports.numerals import DASH
from assay.reports.report import Report
from assay.reports.script import script
from assay.reports.style import TONES
from assay.reports.stylesheet import stylesheet
from assay.reports.table import Entry, Table

_MOST_REASONS = 8  # below a table; more are folded away
_PLACES = ("workload", "cell", "subject", "against", "metric", "stage", "command", "symbol", "key")
_PLACES += ("kernel", "longest kernel", "site")


class Opening(Protocol):
    """What a page says first."""

    @property
    def title(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def tone(self) -> str: ...
    @property
    def facts(self) -> tuple[str, ...]: ...
    @property
    def answers(self) -> tuple[str, ...]: ...
    @property
    def problems(self) -> tuple[str, ...]: ...


def page(report: Report, *, figures: Mapping[str, str]) -> str:
    """report.html; `figures` holds Plotly's JSON by the file stem of its chart."""
    return document(
        report,
        (
            *_outcomes(report),
            '<section id="stages"><h2>Stages</h2>',
            *table(report.stages, titled=False),
            "</section>",
            *_figures(report.charts, figures),
            *tables("results", "Results", report.results),
            *folded("paired", "Paired ratios", report.paired),
            *folded("provenance", "Provenance", report.provenance),
            f"<script>{plotly_script()}</script>" if figures else "",
        ),
    )


def document(opening: Opening, body: Iterable[str]) -> str:
    """A whole page: what it says first, then `body`, in the one style and with the one script."""
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(opening.title)}: {escape(opening.verdict)}</title>",
            f"<style>{stylesheet()}</style></head><body>",
            *_head(opening),
            *body,
            f"<script>{script()}</script>",
            "</body></html>\n",
        )
    )


def table(found: Table, *, titled: bool = True) -> Iterator[str]:
    """A table that sorts on its headers, with its note and the reasons its numbers refer to."""
    rows, reasons = found.entries, found.reasons
    numeric = [any(row[i].value is not None for row in rows) for i in range(len(found.columns))]
    if titled:
        yield f"<h3>{escape(found.title)}</h3>"
    yield '<div class="scroll"><table><thead><tr>'
    yield from (_header(*column) for column in zip(found.columns, numeric, strict=True))
    yield "</tr></thead><tbody>"
    grouped = found.columns[:2] == ("workload", "subject")
    for index, row in enumerate(rows):
        cells = zip(row, found.columns, numeric, strict=True)
        begins = grouped and index > 0 and row[0].text != rows[index - 1][0].text
        kind = ' class="begins"' if begins else ""
        yield f"<tr{kind}>{''.join(_cell(*each, reasons) for each in cells)}</tr>"
    yield "</tbody></table></div>"
    if found.note:
        yield f'<p class="note">{escape(found.note)}</p>'
    if reasons:
        items = (f"<li>{index}. {escape(reason)}</li>" for reason, index in reasons.items())
        told = f'<ul class="reasons">{"".join(items)}</ul>'
        many = f"{len(reasons):,} reasons"
        folded = f'<details class="folded"><summary>{many}</summary>{told}</details>'
        yield told if len(reasons) <= _MOST_REASONS else folded


def _head(opening: Opening) -> Iterator[str]:
    yield f"<header><h1>{escape(opening.title)}</h1>"
    yield f'<p class="verdict {TONES[opening.tone]}">{escape(opening.verdict)}</p>'
    yield f'<ul class="facts">{"".join(f"<li>{escape(f)}</li>" for f in opening.facts)}</ul>'
    if opening.answers:
        told = "".join(f"<li>{escape(answer)}</li>" for answer in opening.answers)
        yield f'<ul class="answers">{told}</ul>'
    if opening.problems:
        lines = "".join(f"<li>{escape(problem)}</li>" for problem in opening.problems)
        yield f'<ul class="problems">{lines}</ul>'
    yield "</header>"


def _outcomes(report: Report) -> Iterator[str]:
    yield '<section id="outcomes"><h2>Failures and other outcomes</h2>'
    if report.outcomes.rows:
        yield from table(report.outcomes, titled=False)
    else:
        yield "<p>Every outcome on record is ok.</p>"
    yield "</section>"


def _figures(charts: Sequence[Chart], figures: Mapping[str, str]) -> Iterator[str]:
    shown = plates([chart for chart in charts if chart.file_stem in figures])
    if not shown:
        return
    yield '<section id="figures"><h2>Figures</h2><div class="figures">'
    for plate in shown:
        yield f"<figure><figcaption>{escape(plate.title)}</figcaption>"
        if len(plate.charts) > 1:
            yield chooser(plate.title, [chart.panel for chart in plate.charts])
        for index, chart in enumerate(plate.charts):
            yield from _panel(chart, figures[chart.file_stem], hidden=index > 0)
        yield "</figure>"
    yield "</div></section>"


def _panel(chart: Chart, figure: str, *, hidden: bool) -> Iterator[str]:
    name = f"figure-{chart.file_stem}"
    # "<" cannot end the script element when it is written as JSON's escape.
    content = figure.replace("<", "\\u003c")
    state = " hidden" if hidden else ""
    yield f'<div class="panel" data-panel="{escape(chart.panel)}"{state}>'
    label = f'role="img" aria-label="{escape(chart.title)}"'
    yield f'<div class="chart" data-figure="{name}" {label}></div>'
    yield f'<script type="application/json" id="{name}">{content}</script>'
    yield from (f'<p class="note">{escape(note)}</p>' for note in chart.notes)
    yield "</div>"


def chooser(
    title: str, panels: Sequence[str], *, of: str = "workloads", shown: str | None = None
) -> str:
    """Which panel of a figure is shown, the first if none is said; the page's script moves all
    figures together."""
    options = (
        f"<option{' selected' if panel == shown else ''}>{escape(panel)}</option>"
        for panel in panels
    )
    label = f'aria-label="{of} of {escape(title)}"'
    return f'<select class="panels" {label}>{"".join(options)}</select>'


def tables(name: str, heading: str, found: Sequence[Table]) -> Iterator[str]:
    """A section of tables; nothing where there are none."""
    if found:
        yield f'<section id="{name}"><h2>{heading}</h2>'
        yield from (line for each in found for line in table(each))
        yield "</section>"


def folded(name: str, heading: str, found: Sequence[Table]) -> Iterator[str]:
    """The same, closed until it is asked for."""
    if found:
        yield f'<details id="{name}"><summary>{heading}</summary>'
        yield from (line for each in found for line in table(each))
        yield "</details>"


def _header(column: str, numeric: bool) -> str:
    name, unit = re.fullmatch(r"(.*?)(?: \(([^()]*)\))?", column, re.DOTALL).groups()
    label = _breakable(name) + (f" <small>{escape(unit)}</small>" if unit else "")
    kind = ' class="number"' if numeric else ""
    return f'<th scope="col"{kind}><button type="button">{label}</button></th>'


def _cell(cell: Entry, column: str, numeric: bool, reasons: Mapping[str, int]) -> str:
    kinds = ["number"] if numeric else ["name"] if column in _PLACES else []
    kinds += [TONES[cell.tone]] if cell.tone in TONES else []
    attributes = f' class="{" ".join(kinds)}"' if kinds else ""
    if cell.value is not None:
        attributes += f' data-value="{cell.value!r}"'
    if cell.text == DASH:
        attributes += ' data-absent="1"'
    if cell.hint:
        attributes += f' title="{escape(cell.hint)}"'
    text = _breakable(cell.text)
    if cell.needs_reason:
        text += f"<sup>{reasons[cell.hint]}</sup>"
    detail = f" <small>{escape(cell.detail)}</small>" if cell.detail else ""
    return f"<td{attributes}>{text}{detail}</td>"


def _breakable(text: str) -> str:
    """Escaped text whose long names may be broken after an underscore."""
    return escape(text).replace("_", "_<wbr>")
